// Where the time goes: on spans made by hand, so that each part can be added up on paper.
#include "sim/timeline/breakdown.hpp"

#include "sim/base/random.hpp"
#include "tests/catch.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

// A program and its spans, one operator at a time.
class Day {
 public:
  Day& kernel(int begin, int end) {
    return add(OpKind::gemm, Stream::compute, 0, begin, begin, end);
  }
  Day& tensor(int begin, int active, int end) {
    return add(OpKind::collective, Stream::tensor_comm, 0, begin, active, end);
  }
  Day& data(int begin, int active, int end) {
    return add(OpKind::collective, Stream::data_comm, 1, begin, active, end);
  }
  Day& world(int begin, int active, int end) {
    return add(OpKind::collective, Stream::data_comm, 2, begin, active, end);
  }
  Day& context(int begin, int active, int end) {
    return add(OpKind::collective, Stream::context_comm, 3, begin, active, end);
  }
  Day& experts(GroupRole group, int begin, int end) {
    return add(OpKind::collective, Stream::tensor_comm, group == GroupRole::expert ? 4 : 5, begin,
               begin, end);
  }
  Day& receive(int begin, int active, int end) {
    return add(OpKind::recv, Stream::forward_recv, 0, begin, active, end);
  }
  Day& host_copy(int begin, int end) {
    return add(OpKind::host_copy, Stream::host_copy, 0, begin, begin, end);
  }
  Breakdown until(int end, bool has_pipeline = true) const {
    return break_down(track, program, at(end), has_pipeline);
  }

  Program program;
  RankTrack track;

 private:
  static TimePoint at(int ns) { return TimePoint{std::chrono::nanoseconds{ns}}; }
  Day& add(OpKind kind, Stream stream, std::uint32_t work, int begin, int active, int end) {
    if (program.collectives.empty())
      program.collectives = {
          Collective{.group = GroupRole::tensor}, Collective{.group = GroupRole::data},
          Collective{.group = GroupRole::world},  Collective{.group = GroupRole::context},
          Collective{.group = GroupRole::expert}, Collective{.group = GroupRole::expert_tensor}};
    track.spans.push_back(
        {OpId{static_cast<std::uint32_t>(program.size())}, at(begin), at(active), at(end)});
    program.kind.push_back(kind);
    program.stream.push_back(stream);
    program.work.push_back(work);
    return *this;
  }
};

}  // namespace

TEST_CASE("communication beside a kernel is hidden, the rest is exposed") {
  const Breakdown parts = Day{}.kernel(0, 10).tensor(5, 5, 14).kernel(14, 20).until(20);
  CHECK(parts.compute == 16ns);
  CHECK(parts.exposed_tensor == 4ns);
  CHECK(parts.total() == 20ns);
}

TEST_CASE("tensor communication comes before data communication, that before a transfer") {
  // 0-4 kernel; 4-6 all three; 6-8 data and the transfer; 8-9 the transfer alone.
  const Breakdown parts =
      Day{}.kernel(0, 4).tensor(4, 4, 6).data(4, 4, 8).receive(4, 4, 9).until(9);
  CHECK(parts.exposed_tensor == 2ns);
  CHECK(parts.exposed_data == 2ns);
  CHECK(parts.exposed_pipeline == 1ns);
}

TEST_CASE("exchanges of context and of experts are not those of a tensor group") {
  // 0-2 kernel; 2-5 tensor, beside it context from 3; 5-7 context alone; 7-9 tokens to experts;
  // 9-10 the sum of an expert's parts.
  const Breakdown parts = Day{}
                              .kernel(0, 2)
                              .tensor(2, 2, 5)
                              .context(3, 4, 7)
                              .experts(GroupRole::expert, 7, 9)
                              .experts(GroupRole::expert_tensor, 9, 10)
                              .until(10);
  CHECK(parts.exposed_tensor == 3ns);
  CHECK(parts.exposed_context == 2ns);
  CHECK(parts.exposed_expert == 3ns);
  CHECK(parts.exposed_within_layers() == 8ns);
  CHECK(parts.exposed() == 8ns);
  CHECK(parts.total() == 10ns);
}

TEST_CASE("waiting for the sender is bubble, the transfer itself is exposed") {
  const Breakdown parts = Day{}.receive(0, 7, 9).kernel(9, 12).until(12);
  CHECK(parts.bubble == 7ns);
  CHECK(parts.exposed_pipeline == 2ns);
}

TEST_CASE("waiting for the partners of a collective is exposed communication of its kind") {
  const Breakdown parts = Day{}.kernel(0, 2).data(2, 6, 8).until(8);
  CHECK(parts.exposed_data == 6ns);
  CHECK(parts.bubble == 0ns);
}

TEST_CASE("waiting at a collective over all stages is bubble in a pipeline, else data") {
  const Day day = Day{}.kernel(0, 2).data(2, 3, 4).world(4, 9, 11).kernel(11, 12);
  CHECK(day.until(12, true).bubble == 5ns);
  CHECK(day.until(12, true).exposed_data == 4ns);
  CHECK(day.until(12, false).bubble == 0ns);
  CHECK(day.until(12, false).exposed_data == 9ns);
}

TEST_CASE("what is left after the last operator is bubble in a pipeline, else data") {
  CHECK(Day{}.kernel(0, 5).until(9, true).bubble == 4ns);
  CHECK(Day{}.kernel(0, 5).until(9, false).exposed_data == 4ns);
}

TEST_CASE("a gap in which nothing runs or waits is the host's") {
  const Breakdown parts = Day{}.kernel(1, 3).kernel(4, 6).host_copy(6, 8).until(8);
  CHECK(parts.host == 4ns);
  CHECK(parts.compute == 4ns);
}

TEST_CASE("a receive that was posted long before costs nothing while kernels run") {
  const Breakdown parts = Day{}.receive(0, 50, 60).kernel(0, 55).kernel(60, 70).until(70);
  CHECK(parts.bubble == 0ns);
  CHECK(parts.exposed_pipeline == 5ns);
}

// The oracle looks at every nanosecond on its own and asks the rules in order.
TEST_CASE("on random days the sweep equals a look at every nanosecond") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::uint64_t draws = 0;
    const auto draw = [&](int most) {
      return static_cast<int>(mix64(seed * 1000 + ++draws) % static_cast<std::uint64_t>(most + 1));
    };
    Day day;
    int compute = draw(5), tensor = draw(9), data = draw(9), receive = draw(9);
    for (int i = 0; i < 12; ++i) {
      const int work = draw(6);
      day.kernel(compute, compute + work);
      compute += work + draw(5);
      const int tensor_wait = draw(3), tensor_time = draw(4);
      day.tensor(tensor, tensor + tensor_wait, tensor + tensor_wait + tensor_time);
      tensor += tensor_wait + tensor_time + draw(8);
      const int data_wait = draw(3), data_time = draw(4);
      day.data(data, data + data_wait, data + data_wait + data_time);
      data += data_wait + data_time + draw(8);
      const int receive_wait = draw(5), receive_time = draw(2);
      day.receive(receive, receive + receive_wait, receive + receive_wait + receive_time);
      receive += receive_wait + receive_time + draw(4);
    }
    const int last = std::max({compute, tensor, data, receive}) + draw(10);
    Breakdown expected;
    TimePoint last_end;
    for (const Span& span : day.track.spans)
      last_end = std::max(last_end, span.end);
    for (int ns = 0; ns < last; ++ns) {
      const TimePoint now{std::chrono::nanoseconds{ns}};
      const auto any = [&](Stream stream, bool waiting) {
        for (const Span& span : day.track.spans)
          if (day.program.stream[span.op.value] == stream &&
              (waiting ? span.begin : span.active) <= now &&
              now < (waiting && stream == Stream::forward_recv ? span.active : span.end))
            return true;
        return false;
      };
      Duration& part = any(Stream::compute, false)        ? expected.compute
                       : any(Stream::tensor_comm, true)   ? expected.exposed_tensor
                       : any(Stream::data_comm, true)     ? expected.exposed_data
                       : any(Stream::forward_recv, false) ? expected.exposed_pipeline
                       : any(Stream::forward_recv, true)  ? expected.bubble
                       : now >= last_end                  ? expected.bubble
                                                          : expected.host;
      part += 1ns;
    }
    const Breakdown parts = day.until(last);
    CHECK(parts == expected);
    CHECK(parts.total() == std::chrono::nanoseconds{last});
  }
}

TEST_CASE("the mean of breakdowns keeps their sum to the picosecond") {
  // Thirds do not come out even: 10/3, 20/3 and a rest of 1 ps must land somewhere.
  const Breakdown a{.compute = Duration{10}, .bubble = Duration{1}};
  const Breakdown b{.compute = Duration{0}, .bubble = Duration{11}};
  const std::vector<std::pair<Breakdown, std::uint64_t>> parts{{a, 1}, {b, 2}};
  const Breakdown mean = weighted_mean(parts);
  CHECK(mean.total() == Duration{11});
  CHECK(mean.compute == Duration{3});  // 3.33
  CHECK(mean.bubble == Duration{8});   // 7.67
}

TEST_CASE("spans that end after the step are refused as our own mistake") {
  CHECK_THROWS_AS(Day{}.kernel(0, 9).until(8), std::logic_error);
}
