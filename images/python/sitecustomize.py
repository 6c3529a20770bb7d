"""Say once, when numpy is imported, that its default integer has 32 bits here.

The interpreter is a WebAssembly program of 32 bits, so numpy takes a 32-bit C long as its default
integer: sums and products beyond 2^31 wrap around without an error. numpy itself is not imported here.
DOZE_NUMPY_QUIET=1 keeps this quiet.
"""
import os
import sys

TEXT = (
    "doze: numpy's default integer has 32 bits in this image: results beyond 2**31 are wrong"
    " without an error. Say dtype=np.int64, e.g. np.arange(n, dtype=np.int64)."
    " DOZE_NUMPY_QUIET=1 silences this."
)


class _NumpyNotice:
    """A finder that finds nothing: the first search for numpy shows it that numpy is imported."""

    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            sys.meta_path.remove(self)
            print(TEXT, file=sys.stderr, flush=True)
        return None


if os.environ.get("DOZE_NUMPY_QUIET", "") in ("", "0"):
    sys.meta_path.insert(0, _NumpyNotice())
