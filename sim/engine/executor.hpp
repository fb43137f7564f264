// Runs a System on simulated time.
//
// A slot runs its streams in order; an operator starts when its stream is free, its dependencies
// have finished and the host has issued it, which may wait for the device itself. Kernels occupy
// the slot's own device; communication starts when all members of its channel have arrived, waits
// out its latency, and then shares links with whatever else uses them. At each instant everything
// that ends is settled first, then what has become ready starts, then shares are solved once.
//
// A kernel on a communication stream (the cast of a gradient bucket) holds its memory traffic while
// it runs beside the compute stream.
//
// On a device, communication kernels hold their SMs from their launch, and their memory traffic
// while they move data; a kernel of the compute stream gets the rest and slows down by what it
// lacks. A persistent one does not give way: blocks for which there is no SM when it starts run
// when one is free, so it takes up to twice as long, and communication that finds no SM waits for
// the first blocks to end. On a core that moves its own messages nothing is left: its kernel stands
// still meanwhile. Kernels that nothing disturbs run as one segment with one event: their times are
// a sum, so nothing is lost by it. When communication starts or ends meanwhile, the segment is cut
// at the kernel that is running.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/cost_table.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/engine/recurrence.hpp"
#include "sim/engine/stepwise.hpp"
#include "sim/engine/system.hpp"
#include "sim/sharing/link_sharing.hpp"

namespace sim {

struct ExecutorInput {
  const System& system;
  std::span<const Program> programs;
  std::span<const ProgramIndex> indexes;
  std::span<const std::uint32_t> index_of;  // by variant: one of `indexes`
  std::span<const LaneCosts> lanes;         // by variant
  double jitter = 0;
  std::uint64_t seed = 0;
  bool jump = true;                 // over whole periods of a steady state
  std::optional<Duration> limit{};  // SimulationOptions::limit
};

class Executor {
 public:
  // `recorded` lists the slots whose spans are kept. `stepwise` is null for fluid collectives.
  Executor(const ExecutorInput& input, std::span<const std::uint32_t> recorded,
           StepwiseRuns* stepwise = nullptr);

  // Runs to the end of all programs, or until they cannot end by the limit: `end` is then the least
  // time at which they could, and the rest says nothing. Throws std::runtime_error on a deadlock,
  // naming who waits; Stopped.
  void run(const Control& control = {});

  TimePoint end() const { return end_; }
  std::uint64_t events() const { return events_; }
  std::uint64_t jumped_events() const { return jumped_events_; }  // events not simulated
  std::uint64_t activities() const { return finished_operators_; }
  // Spans by operator, of the i-th recorded slot.
  std::vector<Span> take_spans(std::size_t i) { return std::move(spans_[i]); }
  const CommTotals& totals(std::size_t cell) const { return totals_[cell]; }
  std::vector<Bytes> carried() const;  // by resource
  std::vector<Duration> busy() const;  // by resource: while anything went over it

 private:
  static constexpr auto compute = static_cast<std::uint32_t>(Stream::compute);
  static constexpr std::uint32_t full_speed_bits = 32;
  static constexpr std::uint64_t full_speed = std::uint64_t{1} << full_speed_bits;
  static constexpr std::uint32_t no_record = UINT32_MAX;
  static constexpr std::uint32_t no_stream = UINT32_MAX;
  static_assert(stream_count <= 16, "masks of streams are 16 bits wide");

  // Two cache lines, what all streams need and what kernels need: with thousands of ranks an event
  // costs what it fetches.
  struct alignas(64) SlotState {
    std::array<std::uint32_t, stream_count> done{};
    // Streams whose next operator waits for one of this stream, as bit masks: what may start when
    // an operator of the stream finishes.
    std::array<std::uint16_t, stream_count> waiters{};
    std::uint16_t host_waiting = 0;  // streams waiting for the host to issue their next operator
    std::uint32_t variant = 0;       // as RankSlot has it

    std::uint32_t position = 0;  // of the running kernel, or the first of the running segment
    std::uint32_t segment_end = 0;
    // An event keeps 30 bits of it.
    std::uint32_t epoch : 28 = 0;
    bool running : 1 = false;     // a kernel or a segment
    bool in_segment : 1 = false;  // runs undisturbed: `remaining` and `updated` are not kept
    bool in_tail : 1 = false;  // of a persistent kernel: its first blocks are done, late ones run
    bool touched : 1 = false;
    std::int32_t sm_held = 0;
    TimePoint begun{};  // of the segment, or of the running kernel
    TimePoint updated{};
    std::int64_t remaining = 0;  // of the running kernel, ps at full speed
    std::uint64_t speed = 0;     // in 1/2^32 of full speed; 0: it stands still
    std::int64_t memory_held = 0;
  };
  static_assert(sizeof(SlotState) == 128);

  // The host issues what belongs to its phase, from `begun` on.
  struct HostState {
    std::uint32_t phase = 0;
    std::uint32_t waits = 0;  // times at which an operator was not issued yet
    TimePoint begun{};
    TimePoint wakeup{};  // the next one, once it is in the future
  };

  // Work is the program of a variant's ranks, with its index and costs.
  struct Work {
    const Program* program = nullptr;
    const ProgramIndex* index = nullptr;
    const LaneCosts* lane = nullptr;
  };

  enum class ActivityKind : std::uint8_t {
    communication,  // of all members of a channel
    message,        // of a stepwise collective: messages_ has it
    side_kernel,    // on a communication stream
  };
  struct Activity {
    std::uint32_t channel = 0;  // of communication
    std::uint32_t slot = 0;     // of a side kernel
    std::uint32_t cell = 0;     // of the cost table
    std::uint32_t epoch = 0;
    Stream stream = Stream::compute;
    std::uint32_t pattern = 0;  // in transfer: index into System::patterns
    TimePoint started{};
    TimePoint moving{};            // since when it is in transfer
    std::int64_t memory_held = 0;  // on each member
    std::int64_t sm_held = 0;      // by a side kernel
    bool in_transfer = false;
    bool moves = false;  // its memory traffic is held on every member
    ActivityKind kind = ActivityKind::communication;
  };

  struct ChannelState {
    std::uint32_t arrived = 0;
  };

  TimePoint now() const { return queue_.now(); }
  // All devices do or none: pools have one library of collectives.
  bool shares_device() const { return !input_.lanes.empty() && input_.lanes.front().shares_device; }
  const Program& program_of(std::uint32_t slot) const {
    return *works_[slots_[slot].variant].program;
  }
  const ProgramIndex& index_of(std::uint32_t slot) const {
    return *works_[slots_[slot].variant].index;
  }
  const LaneCosts& lane_of(std::uint32_t slot) const { return *works_[slots_[slot].variant].lane; }

  void handle(const Event& event);
  void settle();

  // Streams.
  void advance(std::uint32_t slot, std::uint32_t streams);
  std::uint32_t blocking_stream(const SlotState& state, const Program& program,
                                const ProgramIndex& index, OpId op) const;
  void try_start(std::uint32_t slot, std::uint32_t stream);
  void wait_for(std::uint32_t slot, std::uint32_t other, std::uint32_t stream);
  void wait_for_host(std::uint32_t slot, std::uint32_t stream, TimePoint issued);
  void let_host_go_on(std::uint32_t slot, std::uint32_t stream);
  TimePoint issued_at(std::uint32_t slot, OpId op, std::int64_t issued) const;
  void finish(std::uint32_t slot, std::uint32_t stream);
  std::uint32_t woken_by(std::uint32_t slot, std::uint32_t stream);

  // Kernels.
  void start_kernels(std::uint32_t slot);
  void start_single_kernel(std::uint32_t slot);
  bool share_device(std::uint32_t slot);
  void run_rest_of_kernel(std::uint32_t slot);
  void end_kernels(std::uint32_t slot);
  std::uint32_t running_in_segment(std::uint32_t slot) const;
  static TimePoint begin_of(const SlotState& state, const LaneCosts& lane, std::uint32_t position);
  void cut_segment(std::uint32_t slot, std::uint32_t running);
  void place_blocks(std::uint32_t slot);
  void end_phase(std::uint32_t slot);
  bool has_no_room(std::uint32_t slot, std::int64_t sm);
  void touch(std::uint32_t slot);
  void reshare_device(std::uint32_t slot);
  std::uint64_t speed_of(const SlotState& state, const LaneCosts& lane,
                         std::uint32_t position) const;
  void schedule_kernel_end(std::uint32_t slot, TimePoint at);
  std::int64_t jittered(std::uint32_t slot, std::uint32_t position, std::int64_t duration) const;
  void record_kernels(std::uint32_t slot, std::uint32_t end, TimePoint until);

  void start_side_kernel(std::uint32_t slot, Stream stream, OpId op);
  void end_side_kernel(std::uint32_t activity);

  // Communication.
  void launch(std::uint32_t slot, Stream stream, OpId op);
  void arrive(std::uint32_t slot, Stream stream, OpId op, const Call& call);
  void start_activity(const Call& call, Stream stream);
  void begin_moving(Activity& activity, const CommCost& cost);
  void start_transfer(std::uint32_t activity);
  void end_activity(std::uint32_t activity);
  void hold_devices(const Activity& activity, std::int64_t sm, std::int64_t memory);
  Stream stream_of(const Activity& activity, std::size_t member) const;
  const Pattern& pattern_of(const Activity& activity) const;
  std::uint32_t new_activity();

  // Messages of stepwise collectives.
  bool start_stepwise(std::uint32_t activity);
  void send_messages();
  void start_message(std::uint32_t activity);
  void end_message(std::uint32_t activity);

  // The jump over whole periods.
  void prepare_jumps();
  void find_next_milestone();
  void look_for_period();
  Snapshot take_snapshot() const;
  std::vector<std::uint64_t> relative_state() const;
  std::vector<std::uint32_t> live_activities() const;
  std::uint64_t place_of(std::uint32_t activity) const;
  template <class Words>
  void add_slot(Words& words, std::uint32_t slot) const;
  template <class Words>
  void add_launched(Words& words, std::uint32_t slot, std::uint32_t waiting) const;
  template <class Words>
  void add_activity(Words& words, std::uint32_t activity) const;
  template <class Words>
  void add_events(Words& words, const std::vector<std::uint32_t>& order) const;
  std::uint64_t periods_ahead(const Snapshot& before, const Snapshot& current) const;
  static bool host_recurs(const SlotMark& begin, const SlotMark& end, Duration period,
                          std::int64_t issue);
  void jump(const Snapshot& before, const Snapshot& current, std::uint64_t periods);
  void move_slot(std::uint32_t slot, const SlotMark& begin, const SlotMark& end,
                 std::uint64_t periods, Duration by);
  void repeat_spans(std::uint32_t slot, const Snapshot& before, const Snapshot& current,
                    std::uint64_t periods);

  // The limit.
  void prepare_limit();
  void look_at_limit(std::uint32_t slot);

  [[noreturn]] void report_deadlock() const;

  const ExecutorInput input_;
  const System& system_;
  EventQueue queue_;
  LinkSharing sharing_;
  StepwiseRuns* stepwise_;
  std::vector<StepMessage> outbox_;
  std::vector<StepMessage> messages_;   // by activity
  std::vector<WideInt> message_bytes_;  // by resource, in 1/65536 byte
  std::vector<Work> works_;             // by variant
  std::vector<SlotState> slots_;
  std::vector<HostState> hosts_;          // by slot
  std::vector<std::uint32_t> record_of_;  // by slot: which spans are its, or no_record
  // By slot: what the late blocks of a persistent kernel have left when its first are done, in ps.
  std::vector<std::int64_t> late_;
  std::vector<ChannelState> channels_;
  std::vector<Activity> activities_;
  std::vector<std::uint32_t> free_activities_;
  std::vector<std::uint32_t> touched_;
  std::vector<CommTotals> totals_;
  std::vector<std::int64_t> pattern_bytes_;
  std::vector<Duration> pattern_busy_;
  std::vector<std::vector<Span>> spans_;
  TimePoint end_{};
  std::vector<std::vector<std::int64_t>> least_left_;  // by slot; empty: there is no limit
  std::optional<TimePoint> beyond_limit_;              // when the step ends at least
  std::uint64_t events_ = 0;
  std::uint64_t finished_operators_ = 0;
  // Positions of slot 0 at which a recurrence is looked for, and the next of them.
  std::vector<std::uint32_t> milestones_;
  std::uint32_t next_milestone_ = UINT32_MAX;
  std::uint32_t vain_recurrences_ = 0;
  Snapshots snapshots_;
  std::uint64_t jumped_events_ = 0;
};

}  // namespace sim
