// Frames that no rank sends: a member may be broken, or not what it was.
#include <sys/socket.h>

#include <array>
#include <thread>

#include "real/net/tcp_peer.hpp"
#include "real/net/tcp_transport.hpp"
#include "tests/catch.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test
using tcp::Frame;
using tcp::FrameKind;

namespace {

// said_of() is what rank 0 of two says of these bytes of rank 1, while it waits for a message.
std::string said_of(const std::vector<std::byte>& bytes) {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  std::vector<Socket> sockets(2);
  sockets[1] = Socket{ends[0]};
  const std::jthread sender{[other = Socket{ends[1]}, &bytes] {
    send_all(other, bytes, std::chrono::steady_clock::now() + std::chrono::seconds{60});
    ::shutdown(other.handle(), SHUT_WR);
  }};
  const auto transport = make_tcp_transport(0, std::move(sockets));
  std::byte never{};
  const Ticket ticket = transport->start_receive(1, 77, {&never, 1});
  try {
    wait(*transport, ticket);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "received";
}

void append(std::vector<std::byte>& bytes, const Frame& frame, std::string_view text = {}) {
  const auto head = bytes_of_value(frame);
  const auto data = std::as_bytes(std::span{text});
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
}
std::string said_of(const Frame& frame, std::string_view text = {}) {
  std::vector<std::byte> bytes;
  append(bytes, frame, text);
  return said_of(bytes);
}
constexpr const char* no_kind = "rank 1 has sent a frame of no known kind";
constexpr const char* too_much = "rank 1 has sent 64 MiB of messages that rank 0 has not asked for";

}  // namespace

TEST_CASE("who is blamed is a rank, and the cause is printable", "[net]") {
  CHECK(said_of({.bytes = 5, .channel = 1, .kind = FrameKind::abort}, "\x1b[31m") == "\\x1b[31m");
  CHECK(said_of({.channel = 1, .kind = FrameKind::abort}) == "rank 1 has failed without a cause");
  CHECK(said_of({.bytes = 1, .channel = 2, .kind = FrameKind::abort}, "x") == no_kind);
  CHECK(said_of({.bytes = 1, .channel = 0x80000000, .kind = FrameKind::lost}, "x") == no_kind);
  CHECK(said_of({.bytes = 4097, .channel = 1, .kind = FrameKind::lost}) == no_kind);
  CHECK(said_of({.kind = static_cast<FrameKind>(9)}) == no_kind);
}

TEST_CASE("channels and empty messages that nobody asked for take room", "[net]") {
  std::vector<std::byte> channels, empty;
  for (std::uint32_t i = 0; i < 40'000; ++i)
    append(channels, {.channel = i, .kind = FrameKind::ready});
  CHECK(said_of(channels) == too_much);
  for (int i = 0; i < 1'100'000; ++i)
    append(empty, {.channel = 5});
  CHECK(said_of(empty) == too_much);
}

TEST_CASE("more requests at once than anybody posts are refused", "[net]") {
  std::vector<std::byte> bytes;
  for (int i = 0; i <= tcp::most_ready; ++i)
    append(bytes, {.channel = 5, .kind = FrameKind::ready});
  CHECK(said_of(bytes) == "rank 1 has asked rank 0 for 1048576 messages at once");
}
