# A local archive of two packages: apt installs one with what it depends on, runs its scripts and the
# triggers of the system's packages, and purges both. The packages are built here, too. Only for a
# sandbox: apt changes the system.
set -eu
export DEBIAN_FRONTEND=noninteractive PATH=$PATH:/usr/sbin:/sbin
ln -sf /bin/true /usr/sbin/update-ca-certificates # a trigger of this image's, which takes seconds
mkdir -p repo/pool one/DEBIAN one/usr/bin one/etc two/DEBIAN two/usr/share/two
cat >one/DEBIAN/control <<'END'
Package: one
Version: 1.0
Architecture: all
Maintainer: nobody
Depends: two (>= 2)
Description: a test
END
printf '/etc/one.conf\n' >one/DEBIAN/conffiles
cat >one/DEBIAN/postinst <<'END'
#!/bin/sh
set -e
echo "one: $1 ${2-}"
END
printf '#!/bin/sh\necho "one runs: $(cat /etc/one.conf)"\n' >one/usr/bin/one
echo setting >one/etc/one.conf
chmod 755 one/DEBIAN/postinst one/usr/bin/one
cat >two/DEBIAN/control <<'END'
Package: two
Version: 2.0
Architecture: all
Maintainer: nobody
Description: a test
END
echo x >two/usr/share/two/two
for p in one two; do
    dpkg-deb --root-owner-group -Zxz --build $p repo/pool/$p.deb
done
cd repo
for f in pool/*.deb; do
    dpkg-deb -f "$f"
    printf 'Filename: %s\nSize: %s\nSHA256: %s\n\n' "$f" "$(stat -c %s "$f")" "$(sha256sum "$f" | cut -d' ' -f1)"
done >Packages
cd ..
echo "deb [trusted=yes] file:$PWD/repo ./" >/etc/apt/sources.list
apt-get -qq update
apt-get -qq -y install one
dpkg -s one | grep Status
one
mv two/usr/share/two/two two/usr/share/two/newer
sed -i 's/2.0/2.1/' two/DEBIAN/control
dpkg-deb --root-owner-group --build two two.deb
dpkg -i two.deb
dpkg -L two | tail -n 1
apt-get -qq -y purge one two
dpkg -s one 2>&1 | head -n 1
ls /usr/share/two /etc/one.conf 2>&1 | wc -l
dpkg --audit
