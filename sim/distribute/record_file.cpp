#include "sim/distribute/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace sim {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InputError{SourcePosition{path, 0, 0}, why};
}

}  // namespace

std::string read_record_text(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) refuse(path, fmt::format("cannot read the file: {}", std::strerror(errno)));
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  if (file.bad()) refuse(path, "cannot read the file to its end");
  return text;
}

RecordFile::RecordFile(std::string path, const RecordHeader& header, bool resume,
                       const ReadAnswer& read, ResultCache& book)
    : path_{std::move(path)} {
  try {
    open(resume);
    go_on(header, read, book);
  } catch (...) {
    if (descriptor_ >= 0) close(descriptor_);
    throw;
  }
}

RecordFile::~RecordFile() {
  close(descriptor_);  // and the lock is gone
}

void RecordFile::open(bool resume) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) refuse(path_, fmt::format("cannot be written: {}", std::strerror(errno)));
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
    refuse(path_, "is no ordinary file: records must be readable again");
  // A file system without locks does not keep anybody from working.
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    refuse(path_, "another process is writing to it; give each worker its own part: --shard i/n");
  if (!resume && status.st_size > 0)
    refuse(path_, "exists already; go on with what it holds: --resume; or remove it");
}

void RecordFile::go_on(const RecordHeader& header, const ReadAnswer& read, ResultCache& book) {
  const std::string text = read_record_text(path_);
  if (const std::optional<RecordHeader> found = parse_header(text, path_)) {
    const std::string other = difference(found->question, header.question);
    if (!other.empty())
      refuse(path_, fmt::format("its records answer another question: {}; choose another file, or "
                                "remove this one",
                                other));
    if (found->shard != header.shard)
      refuse(path_, fmt::format("its records are of part {}, not of part {}", to_text(found->shard),
                                to_text(header.shard)));
  } else if (!header_line(header).starts_with(text))  // a header that was cut may be written anew
    refuse(path_, "this is no file of records: its first line is not their header");
  const RecordsRead got = parse_records(text, path_, read, book);
  finished_ = got.finished;
  if (got.intact < text.size() && ftruncate(descriptor_, static_cast<off_t>(got.intact)) != 0)
    throw std::runtime_error(
        fmt::format("cannot remove the line of {} that was cut: {}", path_, std::strerror(errno)));
  if (!got.header) write(header_line(header));
}

void RecordFile::write(std::string_view line) {
  const std::scoped_lock lock{mutex_};
  while (broken_ == 0 && !line.empty()) {
    const ssize_t written = ::write(descriptor_, line.data(), line.size());
    if (written < 0 && errno != EINTR) broken_ = errno;
    if (written > 0) line.remove_prefix(static_cast<std::size_t>(written));
  }
  if (broken_ == 0) return;
  throw std::runtime_error(
      fmt::format("cannot write to {}: {}; what it holds stays, go on with "
                  "--resume",
                  path_, std::strerror(broken_)));
}

void RecordFile::append(std::uint64_t unit, std::string_view answer) {
  write(record_line(unit, answer));
}

void RecordFile::finish() {
  if (!std::exchange(finished_, true)) write(finished_line());
}

}  // namespace sim
