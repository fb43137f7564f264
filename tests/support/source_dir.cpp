#include "tests/support/source_dir.hpp"

namespace sim::test {

std::string source_dir() {
  return STEPCAST_SOURCE_DIR;
}

}  // namespace sim::test
