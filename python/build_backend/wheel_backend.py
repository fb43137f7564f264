"""The build back end of pyproject.toml (PEP 517): CMake builds, the standard library packs.

Settings, as `pip install . --config-settings NAME=VALUE` or as environment variables:
  build-dir  STEPCAST_BUILD_DIR  a build folder that is there: it is brought up to date and packed
                                 as it was configured. Without it a folder of its own is built:
                                 Release, the engine for CPU cores, without MPI, CUDA and the window.
  jobs       STEPCAST_JOBS       compilers at once; default: one per core
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

from shared_libraries import bundle, platform_tag
from wheel_archive import WheelArchive, metadata_of, write_metadata

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURATION = ("-DCMAKE_BUILD_TYPE=Release", "-DSTEPCAST_ENGINE=ON", "-DSTEPCAST_PYTHON=ON",
                 "-DSTEPCAST_TESTS=OFF", "-DSTEPCAST_QT=OFF", "-DSTEPCAST_CUDA=OFF",
                 "-DSTEPCAST_MPI=OFF")
PACKAGES = "see `make help`; Debian: cmake ninja-build g++ python3-dev pybind11-dev patchelf"


def version():
    """The project's version, which CMakeLists.txt has."""
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"^project\(stepcast VERSION ([0-9.]+)", text, re.M).group(1)


def setting(settings, name, default=None):
    variable = "STEPCAST_" + name.upper().replace("-", "_")
    return (settings or {}).get(name) or os.environ.get(variable) or default


def need(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        sys.exit(f"stepcast: building a wheel needs {', '.join(missing)} ({PACKAGES})")


def run(*command):
    print("+", *command, flush=True)
    if subprocess.run([str(word) for word in command]).returncode:
        sys.exit(f"stepcast: `{command[0]} {command[1]}` failed; its messages are above ({PACKAGES})")


def built(settings, scratch):
    """The folder of a finished build."""
    jobs = setting(settings, "jobs", str(os.cpu_count() or 1))
    given = setting(settings, "build-dir")
    folder = pathlib.Path(given).resolve() if given else scratch / "build"
    if given and not (folder / "CMakeCache.txt").is_file():
        sys.exit(f"stepcast: build-dir names {folder}, which is no build folder of CMake")
    if not given:
        generator = ("-G", "Ninja") if shutil.which("ninja") else ()
        run("cmake", "-S", ROOT, "-B", folder, *generator, *CONFIGURATION,
            f"-DSTEPCAST_PYTHON_EXECUTABLE={sys.executable}")
    run("cmake", "--build", folder, "-j", jobs, "--target", "stepcast", "stepcast_python",
        "stepcast_words")
    return folder


def staged(folder, scratch):
    """The package as it is to lie in site-packages: module, program, data, shared libraries."""
    stage = scratch / "stage"
    run("cmake", "--install", folder, "--prefix", stage, "--component", "program", "--strip")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    modules = [path for path in stage.rglob("_stepcast*.so") if path.name == "_stepcast" + suffix]
    if not modules:
        sys.exit(f"stepcast: {folder} has no module for this Python (_stepcast{suffix}): configure it "
                 f"with -DSTEPCAST_PYTHON_EXECUTABLE={sys.executable}")
    package = scratch / "wheel" / "stepcast"
    shutil.copytree(modules[0].parent, package)
    for path in ("bin/stepcast", "share/stepcast"):
        (package / path).parent.mkdir(exist_ok=True)
        shutil.move(stage / path, package / path)
    return package, package / modules[0].name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    need("cmake", "patchelf", "ldd")
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        package, module = staged(built(config_settings, scratch), scratch)
        outside = bundle([package / "bin/stepcast", module], package / "lib")
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        tag = f"{python}-{python}-{platform_tag(outside)}"
        archive = WheelArchive(ROOT, version(), tag)
        archive.add_tree(package.parent)
        return archive.write(wheel_directory)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return write_metadata(ROOT, version(), metadata_directory)


def source_files():
    """What is tracked; without git, all but build folders."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return [path for path in listed.stdout.split("\0") if path]
    paths = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return [str(path) for path in paths if path.parts[0] not in ("build", "PKG-INFO")]


def build_sdist(sdist_directory, config_settings=None):
    base = f"stepcast-{version()}"
    with tempfile.TemporaryDirectory() as name:
        info = pathlib.Path(name) / "PKG-INFO"
        info.write_text(metadata_of(ROOT, version()))
        with tarfile.open(pathlib.Path(sdist_directory) / f"{base}.tar.gz", "w:gz") as archive:
            for path in sorted(source_files()):
                archive.add(ROOT / path, f"{base}/{path}", recursive=False)
            archive.add(info, f"{base}/PKG-INFO")
    return f"{base}.tar.gz"
