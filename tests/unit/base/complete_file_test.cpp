#include "sim/base/complete_file.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <stdexcept>

#include "tests/catch.hpp"
#include "tests/temporary.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

// A folder that goes when its test ends.
struct Folder {
  fs::path path = test::temporary_path("complete");
  Folder() { fs::create_directory(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator{path}, {}); }
};

std::string text_in(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}
void put(const std::string& path, const std::string& text) {
  write_complete_file(path, [&](std::ostream& out) { out << text; });
}

// No file of this process may grow beyond `bytes`.
struct FileLimit {
  rlimit before{};
  explicit FileLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit now{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &before); }
};

TEST_CASE("a file is replaced as a whole, and nothing is left beside it") {
  const Folder folder;
  put(folder.file("a"), "old");
  const std::string large(200'000, 'x');  // several blocks of the buffer
  put(folder.file("a"), large);
  CHECK(text_in(folder.file("a")) == large);
  CHECK(folder.files() == 1);
}

TEST_CASE("what is not committed leaves the old file and no other") {
  const Folder folder;
  put(folder.file("a"), "old");
  CHECK_THROWS_WITH(write_complete_file(folder.file("a"),
                                        [](std::ostream& out) {
                                          out << "new";
                                          throw std::runtime_error{"no more"};
                                        }),
                    "no more");
  CHECK(text_in(folder.file("a")) == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("a limit of the system is named, and the old file stays") {
  const Folder folder;
  put(folder.file("a"), "old");
  {
    const FileLimit limit{100'000};
    CHECK_THROWS_WITH(put(folder.file("a"), std::string(300'000, 'x')),
                      "cannot write " + folder.file("a") + ": File too large");
    // Also where the writer looks at its stream.
    CHECK_THROWS_WITH(write_complete_file(folder.file("a"),
                                          [](std::ostream& out) {
                                            if (!(out << std::string(300'000, 'x')))
                                              throw std::runtime_error{"is the disk full?"};
                                          }),
                      "cannot write " + folder.file("a") + ": File too large");
  }
  CHECK(text_in(folder.file("a")) == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("a link stays, and the file behind it is replaced") {
  const Folder folder;
  put(folder.file("a"), "old");
  fs::create_symlink("a", folder.file("to_a"));
  fs::create_symlink("later", folder.file("to_later"));
  put(folder.file("to_a"), "new");
  put(folder.file("to_later"), "made");
  CHECK(fs::is_symlink(folder.file("to_a")));
  CHECK(text_in(folder.file("a")) == "new");
  CHECK(text_in(folder.file("later")) == "made");
}

TEST_CASE("a temporary file that a stranger has put there is not followed") {
  const Folder folder;
  put(folder.file("victim"), "kept");
  fs::create_symlink("victim", fmt::format("{}.{}-0.part", folder.file("a"), getpid()));
  put(folder.file("a"), "new");
  CHECK(text_in(folder.file("victim")) == "kept");
  CHECK(text_in(folder.file("a")) == "new");
}

TEST_CASE("a link to an open descriptor is written through, not replaced") {
  const Folder folder;
  put(folder.file("a"), "old");
  std::FILE* const held = std::fopen(folder.file("a").c_str(), "r+");
  put(fmt::format("/proc/self/fd/{}", fileno(held)), "new");
  std::array<char, 8> read{};
  CHECK(std::fread(read.data(), 1, read.size(), held) == 3);
  std::fclose(held);
  CHECK(text_in(folder.file("a")) == "new");
}

}  // namespace
}  // namespace sim
