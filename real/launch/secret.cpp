#include "real/launch/secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "real/net/tcp.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

// 128 bits as hexadecimal digits: the least that NIST SP 800-131A allows for a key of HMAC is 112.
constexpr std::size_t least_secret_bytes = 32;
constexpr std::size_t most_secret_bytes = 4096;

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
  throw std::invalid_argument{fmt::format("--secret-file {}: {}", path, why)};
}

// Not followed and not waited for: neither a link nor a pipe is a file of secrets.
std::string read_secret_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) refuse_file(path, std::strerror(errno));
  struct stat facts {};
  std::array<char, most_secret_bytes> text{};
  const bool regular = ::fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
  const ssize_t size = regular ? ::read(file, text.data(), text.size()) : 0;
  ::close(file);
  if (!regular) refuse_file(path, "it is no regular file");
  if (facts.st_uid != ::geteuid()) refuse_file(path, "it belongs to another user");
  if ((facts.st_mode & 077U) != 0)
    refuse_file(path, fmt::format("others may use it (mode {:04o}): chmod 600 {}",
                                  facts.st_mode & 07777U, path));
  if (size < 0) refuse_file(path, "it cannot be read");
  std::string secret{text.data(), static_cast<std::size_t>(size)};
  while (secret.ends_with('\n') || secret.ends_with('\r'))
    secret.pop_back();
  return secret;
}

}  // namespace

std::string new_secret() {
  std::array<unsigned char, 32> bytes{};
  SIM_CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  std::string secret;
  for (const unsigned char byte : bytes)
    secret += fmt::format("{:02x}", byte);
  return secret;
}

std::string job_secret(const WorldOptions& options, const Environment& environment) {
  const std::string source = options.secret_file ? "--secret-file" : secret_variable;
  const std::string secret = options.secret_file ? read_secret_file(*options.secret_file)
                                                 : environment(secret_variable).value_or("");
  if (secret.empty() && !options.secret_file) return {};
  if (secret.size() < least_secret_bytes)
    throw std::invalid_argument{
        fmt::format("the secret of {} has {} characters: {} are wanted, as of openssl rand -hex 32",
                    source, secret.size(), least_secret_bytes)};
  return std::string{secret};
}

void require_secret(const World& world, const std::string& secret, const WorldOptions& options) {
  if (!secret.empty() || options.insecure || world.one_machine ||
      is_loopback_name(world.master_address))
    return;
  throw std::invalid_argument{fmt::format(
      "the ranks meet at {}:{}, where strangers can reach them, and the job has no secret: set {} "
      "to the output of one openssl rand -hex 32 on every rank, or name a file that holds it with "
      "--secret-file; --insecure trusts the network",
      world.master_address, world.master_port, secret_variable)};
}

}  // namespace real
