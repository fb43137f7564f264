#include "real/net/tcp_socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "sim/base/check.hpp"

namespace real {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error{fmt::format("{}: {}", what, std::generic_category().message(errno))};
}

struct RawAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address from_raw(const RawAddress& raw) {
  Address address;
  if (raw.storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &raw.storage, sizeof v4);
    address.family = 4;
    address.port = ntohs(v4.sin_port);
    std::memcpy(address.bytes, &v4.sin_addr, 4);
    return address;
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &raw.storage, sizeof v6);
  address.port = ntohs(v6.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    address.family = 4;
    std::memcpy(address.bytes, v6.sin6_addr.s6_addr + 12, 4);
    return address;
  }
  address.family = 6;
  address.scope = v6.sin6_scope_id;
  std::memcpy(address.bytes, &v6.sin6_addr, 16);
  return address;
}

RawAddress to_raw(const Address& address) {
  RawAddress raw;
  if (address.family == 4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(address.port));
    std::memcpy(&v4.sin_addr, address.bytes, 4);
    std::memcpy(&raw.storage, &v4, sizeof v4);
    raw.size = sizeof v4;
    return raw;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<std::uint16_t>(address.port));
  v6.sin6_scope_id = address.scope;
  std::memcpy(&v6.sin6_addr, address.bytes, 16);
  std::memcpy(&raw.storage, &v6, sizeof v6);
  raw.size = sizeof v6;
  return raw;
}

void send_without_delay(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Waits for the socket; false when the deadline passes first.
bool ready(const Socket& socket, short events, Deadline deadline) {
  while (true) {
    pollfd waiting{socket.handle(), events, 0};
    const int left = milliseconds_until(deadline);
    const int count = ::poll(&waiting, 1, left);
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) fail("cannot wait for a socket");
    if (left == 0) return false;
  }
}

}  // namespace

int milliseconds_until(Deadline deadline) {
  const auto left =
      std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    handle_ = other.release();
  }
  return *this;
}
int Socket::release() {
  return std::exchange(handle_, -1);
}
void Socket::close() {
  if (handle_ >= 0) ::close(release());
}

bool Address::is_loopback() const {
  if (family == 4) return bytes[0] == 127;
  return std::all_of(bytes, bytes + 15, [](std::uint8_t byte) { return byte == 0; }) &&
         bytes[15] == 1;
}

std::string to_text(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.bytes, text, sizeof text);
  return address.family == 4 ? fmt::format("{}:{}", text, address.port)
                             : fmt::format("[{}]:{}", text, address.port);
}

std::vector<Address> resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (status != 0)
    throw std::runtime_error{
        fmt::format("cannot find the master address {}: {}", host, ::gai_strerror(status))};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all{found, &::freeaddrinfo};
  std::vector<Address> addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    RawAddress raw;
    std::memcpy(&raw.storage, at->ai_addr, at->ai_addrlen);
    addresses.push_back(from_raw(raw));
    addresses.back().port = static_cast<std::uint32_t>(port);
  }
  return addresses;
}

Address peer_of(const Socket& socket) {
  RawAddress raw;
  if (::getpeername(socket.handle(), raw.get(), &raw.size) != 0) return {};
  return from_raw(raw);
}

Address name_of(const Socket& socket) {
  RawAddress raw;
  if (::getsockname(socket.handle(), raw.get(), &raw.size) != 0)
    fail("cannot tell a socket's address");
  return from_raw(raw);
}

std::optional<Socket> connect_to(const Address& address, Deadline deadline) {
  RawAddress raw = to_raw(address);
  Socket socket{::socket(raw.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!socket.is_open()) return std::nullopt;
  if (::connect(socket.handle(), raw.get(), raw.size) != 0) {
    if (errno != EINPROGRESS) return std::nullopt;
    if (!ready(socket, POLLOUT, deadline)) return std::nullopt;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.handle(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return std::nullopt;
  }
  send_without_delay(socket);
  return socket;
}

std::optional<Socket> listen_at(const Address& address, int backlog) {
  RawAddress raw = to_raw(address);
  Socket socket{::socket(raw.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!socket.is_open()) return std::nullopt;
  const int on = 1;
  const int off = 0;
  ::setsockopt(socket.handle(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family == 6)
    ::setsockopt(socket.handle(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(socket.handle(), raw.get(), raw.size) != 0) return std::nullopt;
  if (::listen(socket.handle(), backlog) != 0) return std::nullopt;
  return socket;
}

Socket listen_at_one_of(const std::vector<Address>& addresses, int backlog) {
  for (const Address& address : addresses)
    if (std::optional<Socket> socket = listen_at(address, backlog)) return std::move(*socket);
  fail(fmt::format("cannot listen at {}", to_text(addresses.front())));
}

std::vector<Address> loopback(int port) {
  Address v4{.family = 4, .port = static_cast<std::uint32_t>(port)};
  Address v6{.family = 6, .port = v4.port};
  v4.bytes[0] = 127;
  v4.bytes[3] = v6.bytes[15] = 1;
  return {v4, v6};
}

std::vector<Address> all_interfaces(int port) {
  const auto number = static_cast<std::uint32_t>(port);
  return {{.family = 6, .port = number}, {.family = 4, .port = number}};
}

std::optional<Socket> accept_from(const Socket& listener) {
  Socket socket{::accept4(listener.handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
  if (!socket.is_open()) return std::nullopt;
  send_without_delay(socket);
  return socket;
}

Moved send_all(const Socket& socket, std::span<const std::byte> data, Deadline deadline) {
  while (!data.empty()) {
    const ssize_t sent = ::send(socket.handle(), data.data(), data.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      data = data.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!ready(socket, POLLOUT, deadline)) return Moved::late;
    } else if (errno != EINTR) {
      return Moved::closed;
    }
  }
  return Moved::all;
}

Moved receive_all(const Socket& socket, std::span<std::byte> data, Deadline deadline) {
  while (!data.empty()) {
    const ssize_t count = ::recv(socket.handle(), data.data(), data.size(), 0);
    if (count > 0) {
      data = data.subspan(static_cast<std::size_t>(count));
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!ready(socket, POLLIN, deadline)) return Moved::late;
    } else if (count == 0 || errno != EINTR) {
      return Moved::closed;
    }
  }
  return Moved::all;
}

}  // namespace real
