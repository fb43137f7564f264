// NCCL topology XML.
#include "tests/fuzz/support/check_import.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::check_import(data, size, sim::import_nccl_xml);
  return 0;
}
