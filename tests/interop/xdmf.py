"""XDMF files, read by a few lines of Python and, where it is installed, by VTK: every value is that
which `cairn cat` prints, bit by bit.

usage: xdmf.py WORK_DIRECTORY CAIRN [--gray-scott PROGRAM] [--picture FILE.png] SAMPLES LAUNCHER...
SAMPLES is look_samples; a rank count follows the launcher's last argument. Both formats. With
--picture, VTK draws the 3-D field into this file.
"""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import h5py
import numpy as np

try:
    import vtk
    from vtk.util.numpy_support import vtk_to_numpy
except ImportError:
    vtk = None

KINDS = {("Float", 8): "f8", ("Float", 4): "f4", ("Int", 8): "i8", ("Int", 4): "i4", ("UInt", 4): "u4",
         ("Short", 2): "i2", ("UShort", 2): "u2", ("Char", 1): "i1", ("UChar", 1): "u1"}


class Checkpoint:
    """A checkpoint as cairn itself reads it."""

    def __init__(self, cairn, prefix):
        self.cairn, self.prefix = cairn, prefix
        shown = json.loads(subprocess.run([cairn, "show", "--json", prefix], check=True,
                                          stdout=subprocess.PIPE).stdout)
        self.tensors = {one["key"]: one for one in shown["tensors"]}
        self.arrays = {}

    def array(self, key):
        if key not in self.arrays:
            tensor = self.tensors[key]
            raw = subprocess.run([self.cairn, "cat", self.prefix, key, "--format", "raw"], check=True,
                                 stdout=subprocess.PIPE).stdout
            kind = np.dtype({"bool": "u1"}.get(tensor["dtype"], tensor["dtype"]))
            array = np.frombuffer(raw, kind).reshape(tensor["shape"])
            if kind.kind == "c":
                array = array.view(array.real.dtype).reshape(*array.shape, 2)
            self.arrays[key] = array
        return self.arrays[key]


def numbers(item):
    return [float(word) for word in item.text.split()]


def dims(item):
    return [int(word) for word in item.get("Dimensions").split()]


def read_item(folder, item):
    if item.get("ItemType") == "HyperSlab":
        slab, source = item
        start, stride, count = np.array(slab.text.split(), int).reshape(3, -1)
        whole = read_item(folder, source)
        return whole[tuple(slice(a, a + b * c, b) for a, b, c in zip(start, stride, count))].reshape(
            dims(item))
    kind = np.dtype(KINDS[item.get("NumberType"), int(item.get("Precision"))])
    if item.get("Format") == "HDF":
        name, path = item.text.split(":")
        with h5py.File(os.path.join(folder, name), "r") as file:
            return file[path][()].astype(kind).reshape(dims(item))
    kind = kind.newbyteorder("<" if item.get("Endian") == "Little" else ">")
    count = int(np.prod(dims(item)))
    return np.fromfile(os.path.join(folder, item.text), kind, count,
                       offset=int(item.get("Seek"))).reshape(dims(item))


def place_of(values, array, covered):
    """Finds the place of these values, which must be a box that no piece had, and marks it in
    `covered`."""
    flat = values.reshape(-1)
    for index in np.argwhere(array == flat[0]) if flat.size else []:
        box = tuple(slice(i, i + n) for i, n in zip(index, values.shape))
        if array[box].shape == values.shape and array[box].tobytes() == values.tobytes() and \
                not covered[box].any():
            covered[box] = True
            return tuple(index)
    raise AssertionError("these values are nowhere in the tensor")


class Judge:
    """Checks the pieces of one step, from any reader."""

    def __init__(self, checkpoint):
        self.checkpoint = checkpoint
        self.covered = {}

    def held_by_nobody(self, key, shape):
        """True where there is no slice: there no reader shows anything either."""
        covered = np.zeros(shape, bool)
        tensor = self.checkpoint.tensors[key]
        for gap in tensor.get("gaps", {}).get("boxes", []) if tensor["sliced"] else []:
            covered[tuple(slice(a, a + n) for a, n in zip(gap["start"], gap["extent"]))] = True
        return covered

    def field(self, name, values, start):
        """A whole attribute of a piece: finds the part that begins at this index of space, or
        anywhere if None."""
        key, component = name, None
        if key not in self.checkpoint.tensors:
            key, component = name.rsplit(" ", 1)
        array = self.checkpoint.array(key)
        if component is not None:
            array = array[..., int(component)]
        covered = self.covered.setdefault(name, self.held_by_nobody(key, array.shape))
        while values.ndim > array.ndim:
            assert values.shape[0] == 1, (name, values.shape)
            values = values[0]
        if array.dtype == np.uint64:
            array = array.view(np.int64)
        assert values.dtype.itemsize == array.dtype.itemsize, (name, values.dtype, array.dtype)
        if start is None:
            return place_of(values, array, covered)
        start = tuple(start) + (0,) * (array.ndim - len(start))
        box = tuple(slice(i, i + n) for i, n in zip(start, values.shape))
        assert not covered[box].any(), name
        assert array[box].tobytes() == np.ascontiguousarray(values).tobytes(), name
        covered[box] = True
        return start

    def finish(self, wanted):
        for name, covered in self.covered.items():
            assert covered.all(), (name, covered.sum(), covered.size)
        names = {name if name in self.checkpoint.tensors else name.rsplit(" ", 1)[0]
                 for name in self.covered}
        assert names == set(wanted), (sorted(names), sorted(wanted))


ORIGIN, SPACING = (-1, 10, 0), (0.5, 0.25, 2)


def start_of(edges, rank, placed):
    """The index of a piece's first cell, whose edges must be exactly where origin and spacing
    say."""
    start = []
    for d in range(3 - rank, 3):
        a, h = (ORIGIN[d], SPACING[d]) if placed else (0, 1)
        first = round((edges[d][0] - a) / h)
        assert edges[d] == [a + h * (first + i) for i in range(len(edges[d]))], (edges[d], a, h)
        start.append(first)
    return start


def steps_by_python(path):
    """(time, [(kind, edges of cells, slowest dimension first, {name: values})])"""
    folder = os.path.dirname(path)
    for step in ElementTree.parse(path).getroot().find("Domain/Grid"):
        pieces = []
        for piece in step.findall("Grid"):
            geometry = piece.find("Geometry")
            arrays = {one.get("Name"): read_item(folder, one[0]) for one in piece.findall("Attribute")}
            if geometry.get("GeometryType") == "ORIGIN_DXDYDZ":
                nodes = [int(one) for one in piece.find("Topology").get("Dimensions").split()]
                edges = [[a + h * i for i in range(n)] for a, h, n in
                         zip(numbers(geometry[0]), numbers(geometry[1]), nodes)]
                pieces.append(("cells", edges, arrays))
            elif geometry.get("GeometryType") == "VXVYVZ":
                edges = [numbers(item) for item in geometry]
                assert [len(one) for one in edges[::-1]] == [
                    int(one) for one in piece.find("Topology").get("Dimensions").split()]
                pieces.append(("cells", edges[::-1], arrays))
            else:
                arrays[piece.get("Name").rsplit(" ", 1)[0]] = read_item(folder, geometry[0])
                pieces.append(("points", None, arrays))
        yield float(step.find("Time").get("Value")), pieces


def leaves(data, name=""):
    if isinstance(data, vtk.vtkMultiBlockDataSet):
        for i in range(data.GetNumberOfBlocks()):
            known = data.HasMetaData(i) and data.GetMetaData(i).Get(vtk.vtkCompositeDataSet.NAME())
            yield from leaves(data.GetBlock(i), known or name)
    elif data is not None:
        yield name, data


def steps_by_vtk(path):
    reader = vtk.vtkXdmfReader()
    assert reader.CanReadFile(path)
    reader.SetFileName(path)
    reader.UpdateInformation()
    for time in reader.GetOutputInformation(0).Get(vtk.vtkStreamingDemandDrivenPipeline.TIME_STEPS()):
        reader.UpdateTimeStep(time)
        pieces = []
        for name, data in leaves(reader.GetOutputDataObject(0)):
            is_even = isinstance(data, vtk.vtkImageData)
            is_grid = is_even or isinstance(data, vtk.vtkRectilinearGrid)
            values = data.GetCellData() if is_grid else data.GetPointData()
            arrays = {}
            for i in range(values.GetNumberOfArrays()):
                array = vtk_to_numpy(values.GetArray(i))
                if is_grid:
                    nodes = data.GetDimensions()
                    array = array.reshape([n - 1 for n in nodes[::-1]] + list(array.shape[1:]))
                arrays[values.GetArrayName(i)] = array
            if is_even:
                edges = [[a + h * i for i in range(n)] for a, h, n in
                         zip(data.GetOrigin(), data.GetSpacing(), data.GetDimensions())]
                pieces.append(("cells", edges[::-1], arrays))
            elif is_grid:
                edges = [vtk_to_numpy(one).tolist() for one in (
                    data.GetXCoordinates(), data.GetYCoordinates(), data.GetZCoordinates())]
                pieces.append(("cells", edges[::-1], arrays))
            else:
                name = re.sub(r"\[\d+\]$", "", name)  # VTK numbers those of one name
                arrays[name.rsplit(" ", 1)[0]] = vtk_to_numpy(data.GetPoints().GetData())
                pieces.append(("points", None, arrays))
        yield time, pieces


def check(cairn, directory, steps, times, placed, left_out=()):
    path = os.path.join(directory, "ckpt.xdmf")
    readers = [steps_by_python] + ([steps_by_vtk] if vtk else [])
    for read in readers:
        found = list(read(path))
        assert [time for time, _ in found] == times, ([time for time, _ in found], times)
        for step, (_, pieces) in zip(steps, found):
            judge = Judge(Checkpoint(cairn, os.path.join(directory, f"ckpt-{step}")))
            for kind, edges, arrays in pieces:
                row = None  # where the first of a set of points is; the others follow
                for name, values in sorted(arrays.items()):
                    start = None
                    if kind == "cells":
                        key = name if name in judge.checkpoint.tensors else name.rsplit(" ", 1)[0]
                        rank = len(judge.checkpoint.tensors[key]["shape"])
                        rank = {"fluid/velocity": 3, "wave": 2, "plane_flow": 2}.get(key, rank)
                        start = start_of(edges, rank, placed)
                    elif read is steps_by_vtk and values.ndim == 2:
                        width = judge.checkpoint.array(name).shape[1]
                        values = np.ascontiguousarray(values[:, :width])  # VTK adds a zero
                    at = judge.field(name, values, start if row is None else [row])
                    if kind == "points":
                        row = at[0]
            tensors = judge.checkpoint.tensors
            judge.finish(key for key, one in tensors.items() if one["shape"] and key not in left_out)


def check_axes(cairn, directory):
    """Without options cells are where the axes say, even with uneven steps; units are printed."""
    path = os.path.join(directory, "axes.xdmf")
    told = subprocess.run([cairn, "xdmf", os.path.join(directory, "ckpt-3"), "-o", path], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    assert "axes/bent: as an axis" not in told, told
    # Axes give centres of cells, which meet half way.
    along = {"y": [3 - 0.25 + 0.5 * i for i in range(8)], "x": [-25 + 10 * i for i in range(7)],
             "bent": [-0.5, 0.5, 1.5, 3, 6, 12, 20]}
    wanted = {"axes/on_axes": ("y", "x"), "axes/on_bent": ("y", "bent")}
    for read in [steps_by_python] + ([steps_by_vtk] if vtk else []):
        judge = Judge(Checkpoint(cairn, os.path.join(directory, "ckpt-3")))
        for _, pieces in read(path):
            for _, edges, arrays in pieces:
                for name in set(arrays) & set(wanted):
                    start = []
                    for axis, found in zip(wanted[name], edges[1:]):
                        first = along[axis].index(found[0])
                        assert found == along[axis][first:first + len(found)], (name, axis, found)
                        start.append(first)
                    judge.field(name, arrays[name], start)
        judge.finish(wanted)
    for attribute in ElementTree.parse(path).iter("Attribute"):
        units = {"axes/on_axes": "m/s & more", "fluid/density": "kg/m3"}.get(attribute.get("Name"))
        said = attribute.find("Information")
        assert units == (None if said is None else said.get("Value")), attribute.get("Name")


def draw(path, picture):
    reader = vtk.vtkXdmfReader()
    reader.SetFileName(path)
    reader.UpdateInformation()
    times = reader.GetOutputInformation(0).Get(vtk.vtkStreamingDemandDrivenPipeline.TIME_STEPS())
    reader.UpdateTimeStep(times[-1])
    renderer = vtk.vtkRenderer()
    renderer.SetBackground(1, 1, 1)
    colours = vtk.vtkColorTransferFunction()
    blocks = [data for _, data in leaves(reader.GetOutputDataObject(0))
              if isinstance(data, vtk.vtkImageData) and data.GetCellData().HasArray("v")]
    low = min(data.GetCellData().GetArray("v").GetRange()[0] for data in blocks)
    high = max(data.GetCellData().GetArray("v").GetRange()[1] for data in blocks)
    for part, rgb in ((0, (0.27, 0.0, 0.33)), (0.25, (0.23, 0.32, 0.55)), (0.5, (0.13, 0.57, 0.55)),
                      (0.75, (0.37, 0.79, 0.38)), (1, (0.99, 0.91, 0.15))):
        colours.AddRGBPoint(low + part * (high - low), *rgb)
    for data in blocks:
        mapper = vtk.vtkDataSetMapper()
        mapper.SetInputData(data)
        mapper.SetScalarModeToUseCellFieldData()
        mapper.SelectColorArray("v")
        mapper.SetLookupTable(colours)
        actor = vtk.vtkActor()
        actor.SetMapper(mapper)
        renderer.AddActor(actor)
        outline = vtk.vtkOutlineFilter()
        outline.SetInputData(data)
        lines = vtk.vtkPolyDataMapper()
        lines.SetInputConnection(outline.GetOutputPort())
        edge = vtk.vtkActor()
        edge.SetMapper(lines)
        edge.GetProperty().SetColor(1, 1, 1)
        renderer.AddActor(edge)
    window = vtk.vtkRenderWindow()
    window.SetOffScreenRendering(1)
    window.SetSize(400, 300)
    window.AddRenderer(renderer)
    renderer.ResetCamera()
    renderer.GetActiveCamera().Elevation(-35)
    renderer.GetActiveCamera().Azimuth(15)
    renderer.ResetCameraClippingRange()
    renderer.GetActiveCamera().Zoom(1.4)
    window.Render()
    grab = vtk.vtkWindowToImageFilter()
    grab.SetInput(window)
    writer = vtk.vtkPNGWriter()
    writer.SetFileName(picture)
    writer.SetInputConnection(grab.GetOutputPort())
    writer.Write()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("work")
    parser.add_argument("cairn")
    parser.add_argument("--gray-scott")
    parser.add_argument("--picture")
    parser.add_argument("--require-vtk", action="store_true")
    parser.add_argument("samples")
    parser.add_argument("launcher", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    assert vtk or not given.require_vtk, "there is no vtk"
    work = os.path.abspath(given.work)
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    counts = collections.Counter()
    for form in ("bundle", "hdf5"):
        # A manager keeps the file up to date: of three steps the last two stay.
        directory = os.path.join(work, form)
        flags = ["--hdf5"] if form == "hdf5" else []
        subprocess.run(given.launcher + ["3", given.samples, *flags, directory], check=True)
        left_out = ("wave",) if form == "hdf5" else ()
        check(given.cairn, directory, [2, 3], [0.25, 0.375], True, left_out)
        kept = open(os.path.join(directory, "ckpt.xdmf"), encoding="utf-8").read()
        subprocess.run([given.cairn, "xdmf", directory, "--spacing", "0.5,0.25,2", "--origin", "-1,10,0",
                        "--points", "ions/position", "--points", "at", "--points", "mesh/position", "--points",
                        "cloud/position", "--time", "time"], check=True,
                       stdout=subprocess.DEVNULL)
        again = open(os.path.join(directory, "ckpt.xdmf"), encoding="utf-8").read()
        assert again == kept, "the tool and the manager write different files"
        check_axes(given.cairn, directory)
        counts[form] += 2
        if given.gray_scott:
            directory = os.path.join(work, "gray-scott-" + form)
            subprocess.run(given.launcher + ["3", given.gray_scott, "--size", "96", "--steps", "3000",
                                             "--checkpoint-dir", directory, "--checkpoint-every", "1500",
                                             "--format", form], check=True, stdout=subprocess.DEVNULL)
            subprocess.run([given.cairn, "xdmf", directory], check=True, stdout=subprocess.DEVNULL)
            check(given.cairn, directory, [1500, 3000], [1500, 3000], False)
            counts["gray-scott"] += 2
            if given.picture and form == "bundle":
                draw(os.path.join(directory, "ckpt.xdmf"), given.picture)
    by = f"VTK {vtk.vtkVersion().GetVTKVersion()}" if vtk else \
        "SKIPPED: VTK, which is not installed (scripts/look-tests has it)"
    print(f"{sum(counts.values())} checkpoints read; {by}")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
