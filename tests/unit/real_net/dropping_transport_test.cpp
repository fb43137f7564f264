// Messages that get dropped and sent again: all arrive, unchanged and in order.
#include "real/net/dropping_transport.hpp"

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "real/net/collectives.hpp"
#include "tests/catch.hpp"

namespace real {
namespace {

std::span<const std::byte> bytes_of(const int& value) {
  return std::as_bytes(std::span{&value, 1});
}

// What rank 1 receives of `count` numbers that rank 0 sends on each of two channels.
std::vector<int> received(double rate, int count) {
  auto world = make_local_world(2);
  const Drops drops{.rate = rate, .timeout = std::chrono::microseconds{50}, .seed = 3};
  std::vector<int> sent(static_cast<std::size_t>(2 * count));
  std::vector<int> came(sent.size());
  std::thread sender{[&] {
    const auto transport = make_dropping_transport(*world[0], drops);
    std::vector<Ticket> tickets;
    for (int i = 0; i < 2 * count; ++i) {
      sent[static_cast<std::size_t>(i)] = i;
      tickets.push_back(transport->start_send(1, static_cast<std::uint32_t>(i % 2),
                                              bytes_of(sent[static_cast<std::size_t>(i)])));
    }
    for (const Ticket ticket : tickets)
      wait(*transport, ticket);
  }};
  const auto transport = make_dropping_transport(*world[1], drops);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 2 * count; ++i)
    tickets.push_back(transport->start_receive(
        0, static_cast<std::uint32_t>(i % 2),
        std::as_writable_bytes(std::span{&came[static_cast<std::size_t>(i)], 1})));
  for (const Ticket ticket : tickets)
    wait(*transport, ticket);
  sender.join();
  return came;
}

}  // namespace

TEST_CASE("what is dropped comes later, in the order in which it was sent", "[net]") {
  const double rate = GENERATE(0.0, 0.3, 0.8);
  constexpr int count = 100;
  const std::vector<int> came = received(rate, count);
  for (int i = 0; i < 2 * count; ++i)
    CHECK(came[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("a message that waits can be called off", "[net]") {
  auto world = make_local_world(2);
  const auto transport = make_dropping_transport(
      *world[0], {.rate = 0.99, .timeout = std::chrono::hours{1}, .seed = 1});
  const int value = 7;
  const Ticket ticket = transport->start_send(1, 0, bytes_of(value));
  CHECK_FALSE(transport->done(ticket));
  transport->cancel(ticket);
  CHECK_THROWS_AS(transport->done(ticket), std::logic_error);
}

}  // namespace real
