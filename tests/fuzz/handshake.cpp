// Messages of strangers and members while ranks join: any bytes end in a world or an error, and
// none make a member of a stranger. The first byte says who speaks: bit 0, rank 0 instead of a
// guest; bit 1, one that proves that it knows the secret first.
#include "real/net/handshake.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <string_view>
#include <thread>

#include "real/net/tcp.hpp"
#include "real/net/tcp_socket.hpp"
#include "tests/fuzz/support/require.hpp"

namespace {

using fuzz::require;

constexpr std::string_view secret = "a secret of thirty-two characters";
constexpr std::size_t hello_size = 16 + 256;
constexpr std::chrono::milliseconds patience{2};

real::Deadline soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds{1};
}

void say(const real::Socket& socket, std::span<const std::byte> bytes) {
  static_cast<void>(real::send_all(socket, bytes, soon()));
}
template <class Message>
bool hear(const real::Socket& socket, Message& message) {
  return real::receive_all(socket, real::bytes_of_value(message), soon()) == real::Moved::all;
}

// A guest at rank 0. Closes behind what it says.
void visit(int port, bool proves, std::span<const std::byte> bytes) {
  const real::Address address{
      .family = 4, .port = static_cast<std::uint32_t>(port), .bytes = {127, 0, 0, 1}};
  const std::optional<real::Socket> socket = real::connect_to(address, soon());
  if (!socket) return;
  if (proves) {
    const real::Greeting greeted = real::greeting();
    real::Challenge challenge;
    say(*socket, real::bytes_of_value(greeted));
    if (!hear(*socket, challenge)) return;
    std::array<std::byte, hello_size> hello{};
    std::ranges::copy(bytes.first(std::min(bytes.size(), hello_size)), hello.begin());
    say(*socket, real::guest_proof(greeted, challenge, hello, std::string{secret}));
    say(*socket, hello);
    bytes = bytes.subspan(std::min(bytes.size(), hello_size));
  }
  say(*socket, bytes);
}

// Rank 0 to a guest, if it comes.
void receive(const real::Socket& listener, bool proves, std::span<const std::byte> bytes) {
  pollfd waits{listener.handle(), POLLIN, 0};
  if (::poll(&waits, 1, 1000) <= 0) return;
  const std::optional<real::Socket> socket = real::accept_from(listener);
  if (!socket) return;
  if (proves) {
    real::Greeting greeted;
    std::array<std::byte, sizeof(real::Proof) + hello_size> answer;
    if (!hear(*socket, greeted)) return;
    say(*socket, real::bytes_of_value(real::challenge_to(greeted, std::string{secret})));
    if (!hear(*socket, answer)) return;
  }
  say(*socket, bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool is_first = (data[0] & 1) != 0, proves = (data[0] & 2) != 0;
  const std::span<const std::byte> bytes = std::as_bytes(std::span{data + 1, size - 1});
  const real::Listener listener = real::listen_on_loopback();
  real::TcpWorld world{.rank = is_first ? 1 : 0,
                       .size = 2,
                       .master_port = listener.port,
                       .secret = std::string{secret},
                       .join_timeout = patience,
                       .guest_time = patience};
  if (!is_first) world.listener = listener.socket;
  bool joined = false;
  std::thread rank{[&] {
    try {
      joined = real::join_tcp_world(world) != nullptr;
    } catch (const std::exception& error) {
      require(!std::string_view{error.what()}.empty());
    }
  }};
  if (is_first)
    receive(real::Socket{listener.socket}, proves, bytes);
  else
    visit(listener.port, proves, bytes);
  rank.join();
  require(proves || !joined);
  return 0;
}
