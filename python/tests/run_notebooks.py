"""Runs every notebook of docs/notebooks/ from its first cell to its last; they are kept without output."""

import json
import os
import pathlib
import sys
import tempfile

try:
    import ipykernel  # noqa: F401
    import matplotlib  # noqa: F401
    import nbclient
    import nbformat
    import pandas  # noqa: F401
except ImportError as missing:
    print(f"skipped: no {missing.name}")
    sys.exit(0)

# The kernel of this interpreter, whatever kernels are installed.
KERNEL = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
          "language": "python", "display_name": "Python 3",
          "env": {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}}  # its warnings are of debuggers


def run(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if any(cell.outputs or cell.execution_count for cell in code):
        sys.exit(f"FAILED: {path} has outputs: clear them")
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
    shown = sum(output.output_type in ("execute_result", "display_data")
                for cell in code for output in cell.outputs)
    if shown == 0:
        sys.exit(f"FAILED: {path} shows nothing")
    print(f"{path}: {shown} results shown")


def main():
    folder = tempfile.mkdtemp()
    kernel = pathlib.Path(folder, "kernels", "python3")
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(json.dumps(KERNEL))
    os.environ.update(JUPYTER_PATH=folder, IPYTHONDIR=folder, MPLCONFIGDIR=folder)
    notebooks = sorted(pathlib.Path("docs/notebooks").glob("*.ipynb"))
    if not notebooks:
        sys.exit("FAILED: there are no notebooks")
    for path in notebooks:
        run(path)


main()
