// The formulas of a transport that loses packets against the protocol itself, packet by packet.
//
// A sender puts a packet on the wire in every slot. What arrives is answered `in_flight` slots
// later: in order by an acknowledgement, else by a request for what is missing. Where nothing is
// left to send and no answer is under way, the timeout sends the oldest packet again.
#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <vector>

#include "sim/topology/transport.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

struct Sent {
  std::int64_t packets = 0;  // on the wire
  int timeouts = 0;          // one after the other, at the end of the stream
};

struct Answer {
  std::int64_t slot = 0;
  std::int64_t wanted = 0;  // the packet that the receiver waits for
  bool request = false;
};

Sent go_back_n(std::int64_t packets, double loss, int in_flight, std::mt19937_64& random) {
  std::bernoulli_distribution lost{loss};
  std::deque<Answer> answers;
  Sent sent;
  std::int64_t next = 0, acknowledged = 0, expected = 0;
  int pass = 0, asked_in = -1;  // one request for each time that the sender goes back
  for (std::int64_t slot = 0; acknowledged < packets; ++slot) {
    while (!answers.empty() && answers.front().slot <= slot) {
      const Answer answer = answers.front();
      answers.pop_front();
      acknowledged = std::max(acknowledged, answer.wanted);
      if (!answer.request) continue;
      next = answer.wanted;
      ++pass;
    }
    if (next == packets) {
      if (!answers.empty() || acknowledged == packets) continue;
      next = acknowledged;
      ++pass;
      ++sent.timeouts;
    }
    ++sent.packets;
    const std::int64_t packet = next++;
    if (lost(random)) continue;
    if (packet == expected) {
      answers.push_back({slot + in_flight, ++expected, false});
    } else if (packet > expected && asked_in != pass) {
      answers.push_back({slot + in_flight, expected, true});
      asked_in = pass;
    }
  }
  return sent;
}

Sent selective_repeat(std::int64_t packets, double loss, int in_flight, std::mt19937_64& random) {
  std::bernoulli_distribution lost{loss};
  std::deque<std::pair<std::int64_t, std::int64_t>> again;  // slot, packet
  std::vector<std::int64_t> unknown;  // lost, and nothing behind them has arrived
  Sent sent;
  std::int64_t next = 0, arrived = 0;
  for (std::int64_t slot = 0; arrived < packets; ++slot) {
    std::int64_t packet = next;
    if (!again.empty() && again.front().first <= slot) {
      packet = again.front().second;
      again.pop_front();
    } else if (next < packets) {
      ++next;
    } else if (again.empty()) {
      for (const std::int64_t one : unknown)
        again.emplace_back(slot + 1, one);
      unknown.clear();
      ++sent.timeouts;
      continue;
    } else {
      continue;
    }
    ++sent.packets;
    if (lost(random)) {
      unknown.push_back(packet);
      continue;
    }
    ++arrived;
    for (const std::int64_t one : unknown)
      again.emplace_back(slot + in_flight, one);
    unknown.clear();
  }
  return sent;
}

Sent send(LossRecovery recovery, std::int64_t packets, double loss, int in_flight,
          std::mt19937_64& random) {
  return recovery == LossRecovery::go_back_n ? go_back_n(packets, loss, in_flight, random)
                                             : selective_repeat(packets, loss, in_flight, random);
}

}  // namespace

TEST_CASE("packets on the wire are those of the protocol", "[packet_loss]") {
  const LossRecovery recovery = GENERATE(LossRecovery::go_back_n, LossRecovery::selective_repeat);
  const double loss = GENERATE(1e-3, 1e-2, 0.1, 0.4);
  const int in_flight = GENERATE(1, 20, 200);
  CAPTURE(static_cast<int>(recovery), loss, in_flight);
  std::mt19937_64 random{7};
  constexpr std::int64_t packets = 200'000;
  const Sent sent = send(recovery, packets, loss, in_flight, random);
  const double measured = static_cast<double>(sent.packets) / packets;
  const double formula = sends_per_packet(recovery, loss, in_flight);
  // A loss is found when the next packet arrives, which is lost itself with the chance `loss`: on
  // average loss / (1 - loss) slots later than the formula has it, for each loss again. Four
  // standard deviations of the losses, each of which costs 1 + in_flight packets.
  const double each = recovery == LossRecovery::go_back_n ? 1 + in_flight : 1;
  const double later = recovery == LossRecovery::go_back_n ? std::pow(loss / (1 - loss), 2) : 0;
  const double deviation = each * std::sqrt(loss / packets) / (1 - loss);
  CHECK(std::abs(measured - formula - later) < 4 * deviation + 1e-4);
}

TEST_CASE("a collective waits for the timeouts of its unluckiest stream", "[packet_loss]") {
  const LossRecovery recovery = GENERATE(LossRecovery::go_back_n, LossRecovery::selective_repeat);
  const double loss = GENERATE(0.002, 0.01, 0.03);
  const int streams = GENERATE(1, 8, 64);
  CAPTURE(static_cast<int>(recovery), loss, streams);
  std::mt19937_64 random{11};
  constexpr int collectives = 4000;
  constexpr std::int64_t packets = 12;
  constexpr int in_flight = 2;
  std::vector<int> waits;
  for (int i = 0; i < collectives; ++i) {
    int worst = 0;
    for (int stream = 0; stream < streams; ++stream)
      worst = std::max(worst, send(recovery, packets, loss, in_flight, random).timeouts);
    waits.push_back(worst);
  }
  double sum = 0, squares = 0;
  for (const int wait : waits) {
    sum += wait;
    squares += wait * wait;
  }
  const double mean = sum / collectives;
  const double error = std::sqrt((squares / collectives - mean * mean) / collectives);
  constexpr int many = 1000;  // retries: the protocol above never gives up
  // The formula leaves out a last packet that is lost when it is sent again with others: of the
  // order of loss^2 for each packet under way.
  CHECK(std::abs(mean - expected_timeouts(loss, streams, many)) <
        4 * error + 1e-3 + streams * loss * loss * (in_flight + 1));
  std::sort(waits.begin(), waits.end());
  const double share = 0.9;
  const int quantile = waits[static_cast<std::size_t>(share * collectives)];
  CHECK(std::abs(quantile - timeouts_at(loss, streams, share, many)) <= 1);
}

TEST_CASE("a flap stalls until the next retry, or outlives them all", "[packet_loss]") {
  Transport transport;
  transport.timeout = duration_from_seconds(2);
  transport.retries = GENERATE(1, 3, 7);
  const double outage = GENERATE(0.3, 2.0, 9.0);
  std::mt19937_64 random{13};
  std::exponential_distribution<double> lasts{1 / outage};
  constexpr int flaps = 200'000;
  double stall = 0;
  int failed = 0;
  for (int i = 0; i < flaps; ++i) {
    const double retries = std::ceil(lasts(random) / 2);
    if (retries > transport.retries)
      ++failed;
    else
      stall += 2 * retries;
  }
  const FlapOutcome outcome = flap_outcome(transport, outage);
  CHECK(std::abs(outcome.fails - static_cast<double>(failed) / flaps) < 0.005);
  CHECK(std::abs(outcome.stall - stall / (flaps - failed)) < 0.02);
}
