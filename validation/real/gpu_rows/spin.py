"""Kernels that hold SMs (spin.ptx), started on a stream of PyTorch."""
import ctypes
import os

THREADS = 512
# Numbers of CUdevice_attribute and CUfunction_attribute (cuda.h).
SHARED_MEMORY_OF_A_BLOCK, DYNAMIC_SHARED_MEMORY = 97, 8


class Holder:
    """Holds `sms` SMs for a time, by waiting or by copying."""

    def __init__(self, torch):
        self.driver = ctypes.CDLL("libcuda.so.1")
        torch.cuda.current_stream().synchronize()  # PyTorch's context is current from here on
        most = ctypes.c_int()
        self._check(self.driver.cuDeviceGetAttribute(
            ctypes.byref(most), SHARED_MEMORY_OF_A_BLOCK, torch.cuda.current_device()))
        self.shared = most.value * 6 // 10
        with open(os.path.join(os.path.dirname(__file__), "spin.ptx"), "rb") as file:
            text = file.read() + b"\0"
        module = ctypes.c_void_p()
        self._check(self.driver.cuModuleLoadData(ctypes.byref(module), text))
        self.functions = {}
        for name in ("wait", "move"):
            function = ctypes.c_void_p()
            self._check(self.driver.cuModuleGetFunction(ctypes.byref(function), module,
                                                        name.encode()))
            self._check(self.driver.cuFuncSetAttribute(function, DYNAMIC_SHARED_MEMORY,
                                                       self.shared))
            self.functions[name] = function
        self.word = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.bytes = 64 << 20
        self.source = torch.zeros(self.bytes, dtype=torch.uint8, device="cuda")
        self.target = torch.zeros(self.bytes, dtype=torch.uint8, device="cuda")

    @staticmethod
    def _check(status):
        if status != 0:
            raise RuntimeError(f"the CUDA driver says {status}")

    def start(self, name, sms, seconds, stream):
        numbers = [int(seconds * 1e9)]
        if name == "wait":
            numbers += [self.word.data_ptr()]
        else:
            numbers += [self.source.data_ptr(), self.target.data_ptr(), self.bytes - 1]
        values = [ctypes.c_uint64(number) for number in numbers]
        addresses = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        self._check(self.driver.cuLaunchKernel(
            self.functions[name], sms, 1, 1, THREADS, 1, 1, self.shared,
            ctypes.c_void_p(stream.cuda_stream), addresses, None))
