// Bytes of a member of a run behind its proof: any bytes are messages, a farewell, or an error.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "real/net/tcp_socket.hpp"
#include "real/net/tcp_transport.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t most = 65'536;  // a socket takes it at once
  std::array<int, 2> ends{};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  real::Socket other{ends[1]};
  require(::send(other.handle(), data, std::min(size, most), MSG_NOSIGNAL) >= 0);
  ::shutdown(other.handle(), SHUT_WR);
  std::vector<real::Socket> sockets(2);
  sockets[1] = real::Socket{ends[0]};
  const auto transport = real::make_tcp_transport(0, std::move(sockets));
  std::array<std::byte, 8> got{}, sent{};
  try {
    const real::Ticket first = transport->start_receive(1, 0, got);
    const real::Ticket second = transport->start_send(1, 1, sent);
    while (!transport->done(first) || !transport->done(second))
      transport->idle();
  } catch (const std::exception& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
