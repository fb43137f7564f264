#include "real/engine/data/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sim/base/input_error.hpp"

namespace real {
void refuse(const std::string& path, const std::string& what) {
  throw sim::InputError{sim::SourcePosition{path, 0, 0}, what};
}

InputFile::InputFile(const std::string& path)
    : path_{path}, handle_{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {
  if (handle_ < 0) refuse(path, fmt::format("cannot read this file: {}", std::strerror(errno)));
  struct stat facts {};
  const bool regular = ::fstat(handle_, &facts) == 0 && S_ISREG(facts.st_mode);
  if (!regular) {
    ::close(handle_);
    refuse(path, "cannot read this: it is no regular file");
  }
  bytes_ = facts.st_size;
}

InputFile::~InputFile() {
  ::close(handle_);
}

void InputFile::read(std::int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(handle_, to.data(), to.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      refuse(path_, fmt::format("cannot read byte {}: {}", offset, std::strerror(errno)));
    if (count == 0)
      refuse(path_, fmt::format("ends at byte {}; it had {} when it was opened", offset, bytes_));
    to = to.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

}  // namespace real
