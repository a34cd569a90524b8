"""What examples/attributes says of its tensors, as h5py and xarray find it.

usage: attributes.py WORK_DIRECTORY TOOL COMMAND...
COMMAND is run with a directory, and with --hdf5 behind it.
"""
import json
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import tensorflow as tf

try:
    import h5netcdf  # noqa: F401
    import xarray
except ImportError:
    xarray = None


def open_xarray(path):
    """The fields of a checkpoint with their axes."""
    return xarray.open_dataset(path, engine="h5netcdf")


def check_h5py(path):
    with h5py.File(path, "r") as file:
        assert file.attrs["title"] == "A gust" and file.attrs["time"] == 1.0, dict(file.attrs)
        assert json.loads(file.attrs["solver"]) == {"order": 2, "cfl": 0.4}, file.attrs["solver"]
        speed = file["speed"]
        assert speed.attrs["units"] == "m/s" and speed.attrs["long_name"] == "wind speed"
        assert speed.attrs["valid_range"].dtype == np.float64
        assert list(speed.attrs["valid_range"]) == [0, 100]
        assert [axis.label for axis in speed.dims] == ["y", "x"]
        for number, name in enumerate("yx"):
            assert file[name].is_scale and not speed.is_scale
            assert speed.dims[number][0] == file[name], name
            assert file[name].attrs["units"] == "m"
            # The reference leads back, too.
            assert [(file[of].name, at) for of, at in file[name].attrs["REFERENCE_LIST"]] == [
                ("/speed", number)]
        return speed[()]


def check_xarray(path, values):
    with open_xarray(path) as data:
        assert data["speed"].dims == ("y", "x"), data
        assert set(data.coords) == {"x", "y"}, data
        assert list(data["x"].values) == [0, 0.5, 1, 1.5] and data["x"].units == "m"
        assert data["speed"].units == "m/s" and data.attrs["title"] == "A gust"
        assert np.array_equal(data["speed"].values, values)
        assert float(data["speed"].sel(y=0.5, x=1.0)) == values[2, 2]


def main():
    work, cairn, command = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    bundles, hdf5 = os.path.join(work, "bundle"), os.path.join(work, "hdf5")
    subprocess.run(command + [bundles], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(command + [hdf5, "--hdf5"], check=True, stdout=subprocess.DEVNULL)

    # TensorFlow reads the same values as without attributes.
    reader = tf.train.load_checkpoint(os.path.join(bundles, "ckpt-20"))
    values = reader.get_tensor("speed")
    assert {"speed", "x", "y"} <= set(reader.get_variable_to_shape_map()), values

    def shown(prefix):
        text = subprocess.run([cairn, "show", "--json", prefix], check=True, capture_output=True,
                              text=True).stdout
        found = json.loads(text)
        members = ("key", "units", "dimensions", "coordinates", "attributes")
        return found["attributes"], [{name: tensor[name] for name in members if name in tensor}
                                     for tensor in found["tensors"]]

    wanted = shown(os.path.join(bundles, "ckpt-20"))
    assert wanted[0]["time"] == 1.0 and wanted[1][0]["units"] == "m/s", wanted
    converted = os.path.join(work, "converted.h5")
    back = os.path.join(work, "back")
    subprocess.run([cairn, "convert", os.path.join(bundles, "ckpt-20"), converted], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([cairn, "convert", converted[:-3], back], check=True, stdout=subprocess.DEVNULL)
    for path in (os.path.join(hdf5, "ckpt-20.h5"), converted):
        assert np.array_equal(check_h5py(path), values)
        if xarray:
            check_xarray(path, values)
        assert shown(path[:-3]) == wanted
    assert shown(back) == wanted
    print("h5py", h5py.__version__, "and", f"xarray {xarray.__version__}" if xarray
          else "no xarray", "find units, axes and attributes")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
