#include "real/cuda/gemm/algorithm_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "sim/base/complete_file.hpp"

namespace real {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view first_line = "stepcast: chosen products, 1";

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw std::runtime_error(fmt::format(
      "{}: {} (the file of chosen products; STEPCAST_GEMM_CACHE names another place, or off)", path,
      what));
}

// Holds the file against other processes.
class Lock {
 public:
  explicit Lock(const std::string& path) {
    std::error_code ignored;
    fs::create_directories(fs::path{path}.parent_path(), ignored);
    descriptor_ = ::open(fmt::format("{}.lock", path).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0)
      fail(path, fmt::format("cannot be written: {}", std::generic_category().message(errno)));
    while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Lock() { ::close(descriptor_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int descriptor_;
};

std::vector<std::string_view> fields_of(std::string_view line, char between) {
  std::vector<std::string_view> fields;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(between, at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return fields;
}

template <class Number, class... Base>
bool parse(std::string_view text, Number& number, Base... base) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, base...);
  return error == std::errc{} && rest == end;
}

std::optional<std::pair<std::string, ChosenAlgorithm>> choice_of(std::string_view line) {
  const std::vector<std::string_view> fields = fields_of(line, '\t');
  if (fields.size() != 4 || fields[0].empty()) return {};
  ChosenAlgorithm chosen;
  const std::vector<std::string_view> words = fields_of(fields[1], ' ');
  if (words.size() != chosen.algorithm.size()) return {};
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].size() != 16 || !parse(words[i], chosen.algorithm[i], 16)) return {};
  if (!parse(fields[2], chosen.microseconds)) return {};
  chosen.description = fields[3];
  return std::pair{std::string{fields[0]}, std::move(chosen)};
}

}  // namespace

void AlgorithmFile::read() {
  std::ifstream in{path_};
  std::string line;
  if (!std::getline(in, line)) return;  // none yet
  if (line != first_line) fail(path_, fmt::format("its first line is not \"{}\"", first_line));
  for (std::size_t number = 2; std::getline(in, line); ++number) {
    auto choice = choice_of(line);
    if (choice) {
      choices_[choice->first] = std::move(choice->second);
    } else if (!line.empty() && wrong_.emplace(number, line).second) {
      notes_.push_back(
          fmt::format("{}:{}: not a chosen product; it is left out, and what it was for "
                      "is chosen anew",
                      path_, number));
    }
  }
}

void AlgorithmFile::append(const std::string& key, const ChosenAlgorithm& chosen) const {
  std::ifstream in{path_, std::ios::binary};
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  if (text.empty()) text = first_line;
  if (text.back() != '\n') text.push_back('\n');  // a line that was cut short ends here
  text += fmt::format("{}\t{:016x}\t{:.3f}\t{}\n", key, fmt::join(chosen.algorithm, " "),
                      chosen.microseconds, chosen.description);
  try {
    sim::CompleteFile file{path_};
    file.write(text);
    file.commit();
  } catch (const std::runtime_error& error) {
    fail(path_, error.what());
  }
}

ChosenAlgorithm AlgorithmFile::get(const std::string& key, const Accept& accept,
                                   const Choose& choose) {
  const auto known = [&]() -> const ChosenAlgorithm* {
    const auto at = choices_.find(key);
    return at != choices_.end() && accept(at->second) ? &at->second : nullptr;
  };
  if (const ChosenAlgorithm* const chosen = known()) return *chosen;
  std::optional<Lock> lock;
  if (!path_.empty()) {
    lock.emplace(path_);
    read();
    if (const ChosenAlgorithm* const chosen = known()) return *chosen;
  }
  ChosenAlgorithm& place = choices_[key] = choose();
  if (lock) append(key, place);
  return place;
}

std::vector<std::string> AlgorithmFile::take_notes() {
  return std::exchange(notes_, {});
}

std::string algorithm_file_of_user() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string{value == nullptr ? "" : value};
  };
  const std::string chosen = variable("STEPCAST_GEMM_CACHE");
  if (!chosen.empty()) return chosen == "off" ? std::string{} : chosen;
  const std::string cache = variable("XDG_CACHE_HOME");
  if (!cache.empty()) return fmt::format("{}/stepcast/gemm-choices.txt", cache);
  const std::string home = variable("HOME");
  return home.empty() ? home : fmt::format("{}/.cache/stepcast/gemm-choices.txt", home);
}

}  // namespace real
