"""The program `stepcast`, as `python -m stepcast` and as the script of an installed wheel."""

import os
import shutil
import sys


def main():
    """Becomes the program that lies in the package, else the one in the PATH."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "stepcast")
    program = own if os.access(own, os.X_OK) else shutil.which("stepcast")
    if program is None or os.path.realpath(program) == os.path.realpath(sys.argv[0]):
        sys.exit("stepcast: this package was installed without the program")
    os.execv(program, ["stepcast", *sys.argv[1:]])


if __name__ == "__main__":
    main()
