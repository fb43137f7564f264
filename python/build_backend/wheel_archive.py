"""A wheel as an archive: its metadata, its record and its bytes, which are the same for the same files."""

import base64
import hashlib
import os
import pathlib
import zipfile

try:
    import tomllib
except ImportError:  # before Python 3.11
    import tomli as tomllib


def project_of(root):
    with open(root / "pyproject.toml", "rb") as file:
        return tomllib.load(file)["project"]


def metadata_of(root, version):
    """METADATA of a wheel, PKG-INFO of an sdist."""
    project = project_of(root)
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}",
             f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}",
             "Description-Content-Type: text/markdown"]
    for extra, packages in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {package}; extra == '{extra}'" for package in packages]
    return "\n".join(lines) + "\n\n" + (root / project["readme"]).read_text()


def entry_points_of(root):
    scripts = project_of(root)["scripts"]
    return "[console_scripts]\n" + "".join(f"{name} = {what}\n" for name, what in scripts.items())


def write_metadata(root, version, directory):
    """The .dist-info folder without a record; returns its name."""
    name = f"stepcast-{version}.dist-info"
    folder = pathlib.Path(directory) / name
    folder.mkdir()
    (folder / "METADATA").write_text(metadata_of(root, version))
    (folder / "entry_points.txt").write_text(entry_points_of(root))
    return name


class WheelArchive:
    """Files that become NAME-VERSION-TAG.whl."""

    def __init__(self, root, version, tag):
        self.name = f"stepcast-{version}-{tag}.whl"
        self.info = f"stepcast-{version}.dist-info"
        wheel = f"Wheel-Version: 1.0\nGenerator: stepcast\nRoot-Is-Purelib: false\nTag: {tag}\n"
        self.files = {f"{self.info}/METADATA": (metadata_of(root, version).encode(), 0o644),
                      f"{self.info}/WHEEL": (wheel.encode(), 0o644),
                      f"{self.info}/entry_points.txt": (entry_points_of(root).encode(), 0o644)}

    def add_tree(self, folder):
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                mode = 0o755 if os.access(path, os.X_OK) else 0o644
                self.files[path.relative_to(folder).as_posix()] = (path.read_bytes(), mode)

    def write(self, directory):
        """Writes the archive, with the record as its last file; returns its name."""
        record = f"{self.info}/RECORD"
        lines = []
        with zipfile.ZipFile(pathlib.Path(directory) / self.name, "w", zipfile.ZIP_DEFLATED,
                             compresslevel=9) as archive:
            for name, (data, mode) in sorted(self.files.items()):
                self.add(archive, name, data, mode)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
                lines.append(f"{name},sha256={digest.decode()},{len(data)}\n")
            self.add(archive, record, ("".join(lines) + f"{record},,\n").encode(), 0o644)
        return self.name

    @staticmethod
    def add(archive, name, data, mode):
        entry = zipfile.ZipInfo(name)  # of 1980: no clock
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, data)
