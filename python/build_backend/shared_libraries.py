"""Shared libraries of a wheel: what programs load beyond what every system has travels with them."""

import hashlib
import platform
import re
import shutil
import subprocess

# Those that PEP 600 allows a wheel to take from the system, as far as we load them.
SYSTEM = re.compile(r"^(ld-linux[-\w]*|lib(c|m|dl|rt|pthread|resolv|util|nsl|z|stdc\+\+|gcc_s))\.so\b")


def output_of(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True,
                          text=True).stdout


def loaded_by(file):
    """Paths of the shared libraries that a file loads, and those that they load, by their names."""
    found = {}
    for line in output_of("ldd", file).splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow and rest.startswith("not found"):
            raise SystemExit(f"stepcast: {file} needs {name}, which is not on this machine")
        if arrow:
            found[name] = rest.split(" (")[0]
    return found


def needed_by(file):
    return output_of("patchelf", "--print-needed", file).split()


def own_name(name, path):
    """libfmt-1a2b3c4d.so.9: another package's libfmt.so.9 is not taken for ours in one process."""
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:8]
    stem, suffix = name.split(".so", 1)
    return f"{stem}-{digest}.so{suffix}"


def bundle(files, folder):
    """Copies what `files` load into `folder` and has them look there, relative to themselves.

    Returns the names of the libraries that are left to the system.
    """
    loaded = {name: path for file in files for name, path in loaded_by(file).items()}
    ours = {name: own_name(name, path) for name, path in loaded.items() if not SYSTEM.match(name)}
    folder.mkdir()
    for name, copy in ours.items():
        shutil.copyfile(loaded[name], folder / copy)
        (folder / copy).chmod(0o755)
        subprocess.run(["strip", "--strip-unneeded", folder / copy], stderr=subprocess.DEVNULL)
        output_of("patchelf", "--set-soname", copy, folder / copy)
    outside = set()
    for file in [*files, *folder.iterdir()]:
        needed = needed_by(file)
        outside.update(name for name in needed if name not in ours)
        for name in needed:
            if name in ours:
                output_of("patchelf", "--replace-needed", name, ours[name], file)
        up = len(file.relative_to(folder.parent).parts) - 1
        where = "$ORIGIN" if file.parent == folder else "$ORIGIN/" + "../" * up + folder.name
        output_of("patchelf", "--set-rpath", where, file)
    return outside


def platform_tag(outside):
    """manylinux of this machine's glibc, where all that is not bundled is on PEP 600's list."""
    machine = platform.machine()
    name, release = platform.libc_ver()
    if name != "glibc" or not all(SYSTEM.match(library) for library in outside):
        return f"linux_{machine}"
    return f"manylinux_{'_'.join(release.split('.')[:2])}_{machine}"
