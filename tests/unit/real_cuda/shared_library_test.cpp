// Where CUDA's libraries are looked for, what is opened, and what is said where there are none.
#include "real/cuda/shared_library.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include "tests/catch.hpp"

namespace fs = std::filesystem;

namespace {

// A machine's files in a folder of their own.
class Machine {
 public:
  Machine() {
    std::string pattern = (fs::temp_directory_path() / "stepcast-library-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    root_ = pattern;
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine() { fs::remove_all(root_); }
  std::string add(const std::string& file) const {
    fs::create_directories(fs::path{root_ + file}.parent_path());
    std::ofstream{root_ + file} << "no ELF file";
    return root_ + file;
  }
  const std::string& root() const { return root_; }
  std::vector<std::string> folders(std::map<std::string, std::string> variables = {}) const {
    return real::library_folders(
        [&](const char* name) {
          const auto found = variables.find(name);
          return found == variables.end() ? nullptr : found->second.c_str();
        },
        root_);
  }

 private:
  std::string root_;
};

// The message of what calling for a function throws.
std::string message_of(real::SharedLibrary library, const char* function) {
  try {
    library.function(function);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& message, const std::string& part) {
  UNSCOPED_INFO(message);
  return message.find(part) != std::string::npos;
}

class Chosen {
 public:
  explicit Chosen(const std::string& folders) {
    setenv("STEPCAST_CUDA_LIBRARIES", folders.c_str(), 1);
  }
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;
  ~Chosen() { unsetenv("STEPCAST_CUDA_LIBRARIES"); }
};

}  // namespace

TEST_CASE("CUDA's libraries are found in the toolkit and in Python packages", "[shared_library]") {
  const Machine machine;
  const std::string newest = machine.add("/usr/local/cuda-13.0/lib64/libnccl.so.2");
  const std::string older = machine.add("/usr/local/cuda-9.2/lib64/libnccl.so.2");
  const std::string system =
      machine.add("/usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/libnccl.so.2");
  const std::string conda =
      machine.add("/opt/conda/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2");
  REQUIRE(real::library_files("libnccl.so.2", machine.folders()) ==
          std::vector{newest, older, system, conda});
  const std::string cublas =
      machine.add("/home/u/.local/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13");
  REQUIRE(real::library_files("libcublasLt.so.13", machine.folders()).empty());
  REQUIRE(real::library_files("libcublasLt.so.13",
                              machine.folders({{"HOME", machine.root() + "/home/u"}})) ==
          std::vector{cublas});
}

TEST_CASE("What the user names comes first, then the environment's Python", "[shared_library]") {
  const Machine machine;
  const std::string toolkit = machine.add("/usr/local/cuda/lib64/libnccl.so.2");
  const std::string chosen = machine.add("/mine/libnccl.so.2");
  const std::string in_venv =
      machine.add("/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2");
  machine.add("/venv/bin/python3");
  REQUIRE(real::library_files(
              "libnccl.so.2",
              machine.folders({{"STEPCAST_CUDA_LIBRARIES", "/none:" + machine.root() + "/mine"},
                               {"VIRTUAL_ENV", machine.root() + "/venv"},
                               {"PATH", "/nowhere:" + machine.root() + "/venv/bin"}})) ==
          std::vector{chosen, toolkit, in_venv});
  REQUIRE(real::library_files("libnccl.so.2",
                              machine.folders({{"PATH", machine.root() + "/venv/bin"}})) ==
          std::vector{toolkit, in_venv});
}

TEST_CASE("A library is opened where it is named", "[shared_library]") {
  const Chosen chosen{OPENED_FOLDER};
  real::SharedLibrary library{"libstepcast_opened.so.2"};
  const auto answer = reinterpret_cast<int (*)()>(library.function("opened_answer"));
  REQUIRE(answer() == 42);
  CHECK(
      has(message_of(library, "forgotten"),
          "libstepcast_opened.so.2 of this machine has no function forgotten: it is too old or too "
          "new for this program"));
}

TEST_CASE("A library that is missing is named with the places looked at", "[shared_library]") {
  const Machine machine;
  const std::string other = machine.add("/mine/libnowhere.so.12");
  const Chosen chosen{machine.root() + "/mine"};
  const std::string message = message_of(real::SharedLibrary{"libnowhere.so.13"}, "f");
  CHECK(has(message,
            "libnowhere.so.13 was not found: the loader knows none "
            "(LD_LIBRARY_PATH, ldconfig)"));
  CHECK(has(message, machine.root() + "/mine, /usr/local/cuda/lib64, "));
  CHECK(has(message, "another version is there: " + other));
  CHECK(has(message, "name the folder that has it in STEPCAST_CUDA_LIBRARIES"));
}

TEST_CASE("A file that cannot be opened is told with the reason", "[shared_library]") {
  const Machine machine;
  const std::string broken = machine.add("/mine/libbroken.so.1");
  const Chosen chosen{machine.root() + "/mine"};
  CHECK(has(message_of(real::SharedLibrary{"libbroken.so.1"}, "f"), "cannot be opened: " + broken));
}
