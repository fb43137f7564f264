// Output of nvidia-smi topo -m.
#include "tests/fuzz/support/check_import.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::check_import(data, size, sim::import_nvidia_smi_topo);
  return 0;
}
