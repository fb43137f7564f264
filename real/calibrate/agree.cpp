#include "real/calibrate/agree.hpp"

#include <cstddef>

namespace real {
namespace {

// Beside those of communicators, stages and arrivals (real/host/communication.hpp).
constexpr std::uint32_t channel = 0x60000000;

void send(Transport& transport, int to, std::span<const double> values) {
  wait(transport, transport.start_send(to, channel, std::as_bytes(values)));
}

void receive(Transport& transport, int from, std::span<double> values) {
  wait(transport, transport.start_receive(from, channel, std::as_writable_bytes(values)));
}

}  // namespace

double agree(Transport& transport, double value) {
  if (transport.rank() != 0) {
    receive(transport, 0, {&value, 1});
    return value;
  }
  for (int rank = 1; rank < transport.size(); ++rank)
    send(transport, rank, {&value, 1});
  return value;
}

std::vector<std::vector<double>> gather(Transport& transport, std::span<const double> values) {
  double count = static_cast<double>(values.size());
  if (transport.rank() != 0) {
    send(transport, 0, {&count, 1});
    if (!values.empty()) send(transport, 0, values);
    return {};
  }
  std::vector<std::vector<double>> all{{values.begin(), values.end()}};
  for (int rank = 1; rank < transport.size(); ++rank) {
    receive(transport, rank, {&count, 1});
    all.emplace_back(static_cast<std::size_t>(count));
    if (!all.back().empty()) receive(transport, rank, all.back());
  }
  return all;
}

void barrier(Transport& transport) {
  gather(transport, {});
  agree(transport, 0);
}

}  // namespace real
