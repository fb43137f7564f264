// Sockets that close themselves, addresses as plain data, and blocking moves with a deadline.
// Room-internal.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace real {

using Deadline = std::chrono::steady_clock::time_point;
// milliseconds_until() is for poll(): rounded up, never negative.
int milliseconds_until(Deadline deadline);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int handle) : handle_{handle} {}
  Socket(Socket&& other) noexcept : handle_{other.release()} {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(); }
  int handle() const { return handle_; }
  bool is_open() const { return handle_ >= 0; }
  int release();
  void close();

 private:
  int handle_ = -1;
};

// An IPv4 or IPv6 address with its port, as it travels between ranks.
struct Address {
  std::uint32_t family = 0;  // 4 or 6
  std::uint32_t port = 0;
  std::uint32_t scope = 0;  // of a link-local IPv6 address
  std::uint8_t bytes[16] = {};
  std::uint32_t unused = 0;
  bool is_loopback() const;
};
static_assert(sizeof(Address) == 32);
std::string to_text(const Address& address);

// Throws std::runtime_error naming the host.
std::vector<Address> resolve(const std::string& host, int port);
Address peer_of(const Socket& socket);
Address name_of(const Socket& socket);

// Non-blocking, no delay. Nothing if nobody listens there or the deadline passes.
std::optional<Socket> connect_to(const Address& address, Deadline deadline);
// Port 0: a free one. Nothing: see errno.
std::optional<Socket> listen_at(const Address& address, int backlog);
// listen_at_one_of() listens at the first that is to be had. Throws std::runtime_error naming the
// address and the cause.
Socket listen_at_one_of(const std::vector<Address>& addresses, int backlog);
std::vector<Address> loopback(int port);        // of IPv4, of IPv6
std::vector<Address> all_interfaces(int port);  // IPv6 takes IPv4 too
// Non-blocking, no delay. Nothing: see errno.
std::optional<Socket> accept_from(const Socket& listener);

enum class Moved : std::uint8_t { all, closed, late };
Moved send_all(const Socket& socket, std::span<const std::byte> data, Deadline deadline);
Moved receive_all(const Socket& socket, std::span<std::byte> data, Deadline deadline);

template <class T>
std::span<const std::byte> bytes_of_value(const T& value) {
  return std::as_bytes(std::span{&value, 1});
}
template <class T>
std::span<std::byte> bytes_of_value(T& value) {
  return std::as_writable_bytes(std::span{&value, 1});
}

}  // namespace real
