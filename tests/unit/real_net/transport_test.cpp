// Messages between two ranks, and what a rank sees of the failure of another.
#include <atomic>
#include <latch>

#include "tests/catch.hpp"
#include "tests/unit/real_net/worlds.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test

namespace {

std::vector<std::byte> pattern(std::size_t size, int seed) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i)
    data[i] = static_cast<std::byte>((i * 7 + static_cast<std::size_t>(seed)) % 251);
  return data;
}

// The failure that waiting for a message of rank `from` ends in.
std::string failure_of(Transport& transport, int from, int& blamed) {
  std::vector<std::byte> data(8);
  try {
    wait(transport, transport.start_receive(from, 0, data));
  } catch (const RankFailure& failure) {
    blamed = failure.rank();
    return failure.what();
  }
  return "no failure";
}

const auto both = {WorldKind::local, WorldKind::tcp};  // NOLINT(cert-err58-cpp)

}  // namespace

TEST_CASE("messages of a channel meet in the order of their starts", "[net]") {
  for (const WorldKind kind : both)
    on_world(kind, 2, [](Transport& transport) {
      const std::vector<std::size_t> sizes{0, 1, 70'000, 3, 3'000'000, 16};
      std::vector<std::vector<std::byte>> data;
      std::vector<Ticket> tickets;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const bool sends = transport.rank() == 0;
        data.push_back(sends ? pattern(sizes[i], static_cast<int>(i))
                             : std::vector<std::byte>(sizes[i]));
        tickets.push_back(sends ? transport.start_send(1, 3, data.back())
                                : transport.start_receive(0, 3, data.back()));
      }
      for (const Ticket ticket : tickets)
        wait(transport, ticket);
      for (std::size_t i = 0; i < sizes.size(); ++i)
        if (data[i] != pattern(sizes[i], static_cast<int>(i))) throw std::runtime_error{"wrong"};
    });
}

TEST_CASE("a message that nobody asks for does not hold up another channel", "[net]") {
  for (const WorldKind kind : both)
    on_world(kind, 2, [](Transport& transport) {
      const std::vector<std::byte> large = pattern(5'000'000, 1);
      const std::vector<std::byte> small = pattern(10, 2);
      std::vector<std::byte> first(10);
      std::vector<std::byte> second(5'000'000);
      if (transport.rank() == 0) {
        const Ticket one = transport.start_send(1, 1, large);
        const Ticket two = transport.start_send(1, 2, small);
        wait(transport, two);
        wait(transport, one);
        return;
      }
      wait(transport, transport.start_receive(0, 2, first));
      wait(transport, transport.start_receive(0, 1, second));
      if (first != small || second != large) throw std::runtime_error{"wrong"};
    });
}

TEST_CASE("both ranks may send a large message before they receive", "[net]") {
  for (const WorldKind kind : both)
    on_world(kind, 2, [](Transport& transport) {
      const int other = 1 - transport.rank();
      const std::vector<std::byte> mine = pattern(20'000'000, transport.rank());
      std::vector<std::byte> theirs(mine.size());
      const Ticket sent = transport.start_send(other, 0, mine);
      const Ticket received = transport.start_receive(other, 0, theirs);
      wait(transport, sent);
      wait(transport, received);
      if (theirs != pattern(mine.size(), other)) throw std::runtime_error{"wrong"};
    });
}

TEST_CASE("a receive of another size than its send is a bug", "[net]") {
  for (const WorldKind kind : both)
    REQUIRE_THROWS_WITH(
        on_world(kind, 2,
                 [](Transport& transport) {
                   std::vector<std::byte> data(transport.rank() == 0 ? 8 : 9);
                   const bool sends = transport.rank() == 1;
                   wait(transport, sends ? transport.start_send(0, 4, data)
                                         : transport.start_receive(1, 4, data));
                 }),
        "a message between ranks 0 and 1 on channel 4 is received with another size than it is "
        "sent with");
}

TEST_CASE("a rank does not send to itself or to a stranger", "[net]") {
  const auto world = make_local_world(2);
  std::vector<std::byte> data(1);
  REQUIRE_THROWS_WITH(world[0]->start_send(0, 0, data), "rank 0 has no partner 0");
  REQUIRE_THROWS_WITH(world[0]->start_receive(2, 0, data), "rank 0 has no partner 2");
}

TEST_CASE("whoever waits for a rank that has ended is told", "[net]") {
  for (const WorldKind kind : both) {
    std::string text;
    int blamed = -1;
    on_world(kind, 3, [&](Transport& transport) {
      if (transport.rank() == 0) text = failure_of(transport, 2, blamed);
    });
    REQUIRE(text == "rank 2 has ended without rank 0's message");
    REQUIRE(blamed == 2);
  }
}

TEST_CASE("what a rank sent before it ended arrives", "[net]") {
  for (const WorldKind kind : both)
    on_world(kind, 2, [](Transport& transport) {
      std::vector<std::byte> data = pattern(3'000'000, 3);
      if (transport.rank() == 0) return wait(transport, transport.start_send(1, 0, data));
      std::vector<std::byte> got(data.size());
      wait(transport, transport.start_receive(0, 0, got));
      if (got != data) throw std::runtime_error{"wrong"};
    });
}

TEST_CASE("an abort reaches every rank with its reason, whomever it waits for", "[net]") {
  for (const WorldKind kind : both) {
    std::array<std::string, 4> texts;
    std::array<int, 4> blamed{};
    on_world(kind, 4, [&](Transport& transport) {
      const auto rank = static_cast<std::size_t>(transport.rank());
      if (rank == 2) return transport.abort(1, "rank 1 fell over");
      // None of ranks 0, 1 and 3 waits for rank 2.
      texts[rank] = failure_of(transport, rank == 0 ? 1 : 0, blamed[rank]);
    });
    for (const std::size_t rank : {0U, 1U, 3U}) {
      REQUIRE(texts[rank] == "rank 1 fell over");
      REQUIRE(blamed[rank] == 1);
    }
  }
}

TEST_CASE("an exception that ends a rank's thread ends the world", "[net]") {
  for (const WorldKind kind : both) {
    std::string text;
    int blamed = -1;
    REQUIRE_THROWS_WITH(on_world(kind, 3,
                                 [&](Transport& transport) {
                                   if (transport.rank() == 1) throw std::runtime_error{"own fault"};
                                   if (transport.rank() == 0)
                                     text = failure_of(transport, 2, blamed);
                                   else
                                     failure_of(transport, 0, blamed);
                                 }),
                        "own fault");
    REQUIRE(text == "rank 1 has failed");
    REQUIRE(blamed == 1);
  }
}

TEST_CASE("a message that is called off leaves the receiver's memory alone", "[net]") {
  for (const WorldKind kind : both) {
    std::latch sent{1};
    on_world(kind, 2, [&](Transport& transport) {
      std::vector<std::byte> data = pattern(100, 1);
      if (transport.rank() == 0) {
        std::vector<std::byte> never(100);
        const Ticket ticket = transport.start_receive(1, 0, never);
        transport.cancel(ticket);
        sent.count_down();
        // Another channel still works, and the message of the first lies there for nobody.
        wait(transport, transport.start_receive(1, 1, data));
        if (never != std::vector<std::byte>(100)) throw std::runtime_error{"written"};
        return;
      }
      sent.wait();
      const Ticket lost = transport.start_send(0, 0, data);
      wait(transport, transport.start_send(0, 1, data));
      if (kind == WorldKind::local) transport.cancel(lost);
    });
  }
}

TEST_CASE("memory that an unwound rank waited for is left alone", "[net]") {
  const auto world = make_local_world(2);
  std::vector<std::byte> memory(8), data = pattern(8, 1);
  const Ticket ticket = world[0]->start_receive(1, 0, memory);
  world[1]->abort(1, "given up");
  REQUIRE_THROWS_AS(wait(*world[0], ticket), RankFailure);
  world[1]->start_send(0, 0, data);
  REQUIRE(memory == std::vector<std::byte>(8));
}

TEST_CASE("a large message waits for its receive, and holds back only its own channel", "[net]") {
  for (const WorldKind kind : both)
    on_world(kind, 2, [](Transport& transport) {
      const std::vector<std::byte> large = pattern(1'000'000, 1);
      std::vector<std::byte> got(large.size());
      std::vector<std::byte> small(16);
      if (transport.rank() == 1) {
        const Ticket first = transport.start_send(0, 7, large);
        const Ticket behind = transport.start_send(0, 7, small);
        // Back and forth on another channel: there was time enough.
        for (int i = 0; i < 20; ++i) {
          wait(transport, transport.start_send(0, 8, small));
          wait(transport, transport.start_receive(0, 8, small));
          if (transport.done(first)) throw std::runtime_error{"sent without a receive"};
        }
        wait(transport, transport.start_send(0, 8, small));
        wait(transport, first);
        return wait(transport, behind);
      }
      for (int i = 0; i < 20; ++i) {
        wait(transport, transport.start_receive(1, 8, small));
        wait(transport, transport.start_send(1, 8, small));
      }
      wait(transport, transport.start_receive(1, 8, small));
      wait(transport, transport.start_receive(1, 7, got));
      wait(transport, transport.start_receive(1, 7, small));
      if (got != large) throw std::runtime_error{"wrong"};
    });
}

TEST_CASE("a large message that is received with another size is a bug, not a hang", "[net]") {
  for (const WorldKind kind : both)
    for (const std::size_t wanted : {std::size_t{8}, std::size_t{999'999}})
      REQUIRE_THROWS_WITH(
          on_world(kind, 2,
                   [&](Transport& transport) {
                     std::vector<std::byte> data(transport.rank() == 0 ? wanted : 1'000'000);
                     const bool sends = transport.rank() == 1;
                     wait(transport, sends ? transport.start_send(0, 4, data)
                                           : transport.start_receive(1, 4, data));
                   }),
          "a message between ranks 0 and 1 on channel 4 is received with another size than it is "
          "sent with");
}

TEST_CASE("a rank that sends on and on without being asked is refused by name", "[net]") {
  REQUIRE_THROWS_WITH(on_world(WorldKind::tcp, 2,
                               [](Transport& transport) {
                                 const std::vector<std::byte> data(65'536);
                                 if (transport.rank() == 0) {
                                   std::vector<std::byte> never(1);
                                   return wait(transport, transport.start_receive(1, 9, never));
                                 }
                                 for (int i = 0; i < 1025; ++i)
                                   wait(transport, transport.start_send(0, 4, data));
                                 wait(transport, transport.start_send(0, 4, data));
                               }),
                      "rank 1 has sent 64 MiB of messages that rank 0 has not asked for");
}
