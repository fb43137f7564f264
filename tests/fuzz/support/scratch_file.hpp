// A file of this process, gone when it ends.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/support/require.hpp"

namespace fuzz {

class ScratchFile {
 public:
  ScratchFile() {
    const int handle = mkstemp(path_.data());  // fills in the six X
    require(handle >= 0);
    close(handle);
  }
  ~ScratchFile() { unlink(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& write(std::string_view text) const {
    std::ofstream{path_, std::ios::binary | std::ios::trunc} << text;
    return path_;
  }

 private:
  std::string path_ = "/tmp/stepcast-fuzz-XXXXXX";
};

}  // namespace fuzz
