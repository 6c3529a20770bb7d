# Reads lines of a terminal, also after it was stopped; an interrupt does not end it.
trap 'echo resumed' CONT
trap 'echo interrupted' INT
echo begun
while read -r line; do
    echo "got $line"
    [ "$line" = signal ] && kill -INT $$
done
echo ended
