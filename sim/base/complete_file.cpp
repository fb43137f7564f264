#include "sim/base/complete_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <ostream>
#include <stdexcept>
#include <streambuf>
#include <utility>
#include <vector>

namespace sim {
namespace {

namespace fs = std::filesystem;

constexpr int most_links = 40;  // MAXSYMLINKS of Linux
// Names of temporary files that killed programs may have left behind.
constexpr int most_temporary_names = 100;

bool in_proc(const fs::path& path) {
  std::error_code error;
  return fs::weakly_canonical(fs::absolute(path).parent_path(), error)
      .string()
      .starts_with("/proc/");
}

// The file behind links that a complete one may replace; empty: `path` is to be written to.
fs::path replaced_file(const fs::path& path) {
  std::error_code error;
  fs::path at = path;
  for (int links = 0; links < most_links && fs::is_symlink(at, error); ++links) {
    if (in_proc(at)) return {};
    at = at.parent_path() / fs::read_symlink(at, error);
  }
  const fs::file_status status = fs::symlink_status(at, error);
  return !fs::exists(status) || fs::is_regular_file(status) ? at : fs::path{};
}

// Passes on what is written to it in large blocks.
class BlockBuffer final : public std::streambuf {
 public:
  explicit BlockBuffer(CompleteFile& file) : file_{file} { empty_block(); }
  void finish() {
    pass_on();
    throw_failure();
  }
  // Throws what has gone wrong, though the stream went on.
  void throw_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  int_type overflow(int_type c) override {
    if (!pass_on()) return traits_type::eof();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }
  int sync() override { return pass_on() ? 0 : -1; }

  bool pass_on() {
    try {
      if (!failure_) file_.write({pbase(), static_cast<std::size_t>(pptr() - pbase())});
    } catch (...) {
      failure_ = std::current_exception();
    }
    empty_block();
    return !failure_;
  }
  void empty_block() { setp(block_.data(), block_.data() + block_.size()); }

  CompleteFile& file_;
  std::vector<char> block_ = std::vector<char>(std::size_t{1} << 16);
  std::exception_ptr failure_;
};

}  // namespace

CompleteFile::CompleteFile(std::string path)
    : path_{std::move(path)}, target_{replaced_file(path_).string()} {
  if (target_.empty())
    handle_ = ::open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  else
    open_beside();
  if (handle_ < 0) fail();
}

CompleteFile::~CompleteFile() {
  if (handle_ >= 0) ::close(handle_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void CompleteFile::open_beside() {
  for (int i = 0; i < most_temporary_names && handle_ < 0; ++i) {
    const std::string name = fmt::format("{}.{}-{}.part", target_, ::getpid(), i);
    handle_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (handle_ >= 0) temporary_ = name;
    if (handle_ < 0 && errno != EEXIST) return;
  }
}

void CompleteFile::fail() const {
  throw std::runtime_error{fmt::format("cannot write {}: {}", path_, std::strerror(errno))};
}

void CompleteFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(handle_, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) fail();
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void CompleteFile::commit() {
  if (!temporary_.empty() && ::fsync(handle_) != 0) fail();
  if (::close(std::exchange(handle_, -1)) != 0) fail();
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  temporary_.clear();
  // So that the name survives a crash as well, where the file system can promise it.
  const fs::path folder = fs::absolute(target_).parent_path();
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);
  ::close(directory);
}

void write_complete_file(const std::string& path,
                         const std::function<void(std::ostream& out)>& write) {
  CompleteFile file{path};
  BlockBuffer buffer{file};
  std::ostream out{&buffer};
  try {
    write(out);
  } catch (...) {
    buffer.throw_failure();  // rather than what `write` saw of it
    throw;
  }
  buffer.finish();
  file.commit();
}

}  // namespace sim
