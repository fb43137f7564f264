// Small messages between all ranks of a run, outside its steps.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "real/net/heartbeat.hpp"
#include "real/net/transport.hpp"

namespace real {

class Control {
 public:
  // Apart from the channels of the backends (real/host/communication.hpp).
  static constexpr std::uint32_t channel = 0x68000000;

  explicit Control(Transport& transport, Heartbeat* heartbeat = nullptr)
      : transport_{transport}, heartbeat_{heartbeat} {}

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }

  // The values of all ranks, by rank, on every rank.
  template <class T>
  std::vector<T> all(const T& own) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> said(static_cast<std::size_t>(size()));
    said[static_cast<std::size_t>(rank())] = own;
    for (int from = 0; from < size(); ++from) {
      T& slot = said[static_cast<std::size_t>(from)];
      to_root(from, std::as_writable_bytes(std::span{&slot, 1}));
    }
    from_root(std::as_writable_bytes(std::span{said}));
    return said;
  }
  void barrier() { all(char{0}); }

  // The data of rank `from` reaches rank 0: `data` is read there and written here.
  void to_root(int from, std::span<std::byte> data);
  void from_root(std::span<std::byte> data);

 private:
  void finish(Ticket ticket);
  void finish(Pending& message);

  Transport& transport_;
  Heartbeat* heartbeat_;
};

}  // namespace real
