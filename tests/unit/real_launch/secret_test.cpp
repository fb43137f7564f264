// Where the secret of a job comes from, and who needs none.
#include "real/launch/secret.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test

namespace {

const std::string some_secret(32, 's');

Environment having(const std::string& value) {
  return [value](const std::string& name) -> std::optional<std::string> {
    if (name != secret_variable || value.empty()) return std::nullopt;
    return value;
  };
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The mistake of a file with this mode and text.
std::string refusal(mode_t mode, const std::string& text) {
  const auto path = sim::test::temporary_path("secret");
  std::ofstream{path} << text;
  ::chmod(path.c_str(), mode);
  std::string said = "taken";
  try {
    if (job_secret({.secret_file = path.string()}, having("")) != some_secret) said = "other";
  } catch (const std::invalid_argument& error) {
    said = error.what();
  }
  std::filesystem::remove(path);
  return said;
}

}  // namespace

TEST_CASE("a secret is that of the file, else of the environment, and long enough", "[launch]") {
  CHECK(job_secret({}, having("")).empty());
  CHECK(job_secret({}, having(some_secret)) == some_secret);
  CHECK_THROWS_WITH(job_secret({}, having("short")),
                    "the secret of STEPCAST_JOB_SECRET has 5 characters: 32 are wanted, as of "
                    "openssl rand -hex 32");
  CHECK(refusal(0600, some_secret + "\n") == "taken");
  CHECK(refusal(0400, some_secret) == "taken");
  CHECK(has(refusal(0600, ""), "has 0 characters"));
}

TEST_CASE("a file of secrets that others could read or replace is refused", "[launch]") {
  CHECK(has(refusal(0640, some_secret), "others may use it (mode 0640): chmod 600 "));
  CHECK(has(refusal(0602, some_secret), "others may use it"));
  const auto link = sim::test::temporary_path("secret-link");
  std::filesystem::create_symlink("/dev/null", link);
  CHECK_THROWS_AS(job_secret({.secret_file = link.string()}, having("")), std::invalid_argument);
  std::filesystem::remove(link);
  CHECK_THROWS_WITH(job_secret({.secret_file = "/dev/null"}, having("")),
                    "--secret-file /dev/null: it is no regular file");
}

TEST_CASE("ranks that strangers can reach need a secret, unless the user waives it", "[launch]") {
  const World far{.rank = 1, .size = 2, .master_address = "10.0.0.1", .master_port = 7};
  std::string said;
  try {
    require_secret(far, "", {});
  } catch (const std::invalid_argument& error) {
    said = error.what();
  }
  for (const char* part : {"meet at 10.0.0.1:7", secret_variable, "--secret-file", "--insecure"})
    CHECK(has(said, part));
  CHECK_NOTHROW(require_secret(far, some_secret, {}));
  CHECK_NOTHROW(require_secret(far, "", {.insecure = true}));
  World near = far;
  near.one_machine = true;
  CHECK_NOTHROW(require_secret(near, "", {}));
  near = far;
  near.master_address = "127.0.0.1";
  CHECK_NOTHROW(require_secret(near, "", {}));
}

TEST_CASE("secrets differ", "[launch]") {
  CHECK(new_secret().size() == 64);
  CHECK(new_secret() != new_secret());
}
