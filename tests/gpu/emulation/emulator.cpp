// _longjmp between fibers is what it is for here; the fortified one takes it for an error.
#undef _FORTIFY_SOURCE
#include "tests/gpu/emulation/emulator.hpp"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulation {
namespace {

// AddressSanitizer must know on which stack it is. `kept`: what it keeps of the stack that is left.
struct StackBounds {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* kept = nullptr;
};
#ifdef __SANITIZE_ADDRESS__
void leave_for(StackBounds* self, const StackBounds& other) {
  __sanitizer_start_switch_fiber(self != nullptr ? &self->kept : nullptr, other.bottom,
                                 other.bytes);
}
void arrive(StackBounds& self, StackBounds& left) {
  __sanitizer_finish_switch_fiber(self.kept, &left.bottom, &left.bytes);
}
#else
void leave_for(StackBounds*, const StackBounds&) {}
void arrive(StackBounds&, StackBounds&) {}
#endif

struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  bool valid = false;
};

enum class Waiting : std::uint8_t { no, barrier, warp, done };

struct Fiber {
  Dim3 index;
  int number = 0;
  Waiting waiting = Waiting::no;
  WarpOp op = WarpOp::sync;
  unsigned meetings = 0;  // warp-wide operations so far: parity chooses the slots
  bool started = false;
  ucontext_t context{};
  jmp_buf resume{};
  StackBounds stack;
  std::deque<std::vector<Copy>> groups;
  std::vector<Copy> open;
};

struct Warp {
  alignas(64) std::array<std::byte, 2 * warp_size * WarpView::slot_bytes> slots{};
};

class Stacks {
 public:
  static constexpr std::size_t bytes = std::size_t{128} << 10;
  explicit Stacks(std::size_t count) : size_{count * bytes} {
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc{};
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks() { munmap(memory_, size_); }
  void* at(std::size_t index) const { return static_cast<std::byte*>(memory_) + index * bytes; }

 private:
  std::size_t size_ = 0;
  void* memory_ = nullptr;
};

// Stacks of a host thread's fibers, kept from kernel to kernel: fresh pages cost more than a small
// kernel.
const Stacks& stacks_for(std::size_t count) {
  thread_local std::unique_ptr<Stacks> kept;
  thread_local std::size_t size = 0;
  if (size < count) {
    kept.reset();
    kept = std::make_unique<Stacks>(count);
    size = count;
  }
  return *kept;
}

class Machine;
struct Current {
  Machine* machine = nullptr;
  Fiber* fiber = nullptr;
  Order order = Order::ascending;
};
// current() is what a kernel asks for without being handed it, like the special registers of a GPU.
Current& current() {
  thread_local Current state;
  return state;
}

class Machine {
 public:
  Machine(const Grid& grid, const std::function<void()>& kernel)
      : grid_{grid},
        kernel_{kernel},
        count_{static_cast<std::size_t>(grid.threads.x) * grid.threads.y * grid.threads.z},
        stacks_{stacks_for(count_ <= 1024 ? count_ : 1)},
        shared_(grid.shared_bytes + 1024) {
    if (count_ == 0 || count_ % warp_size != 0 || count_ > 1024)
      throw std::logic_error{"a block of " + std::to_string(count_) + " threads"};
    if (grid.shared_bytes > 227 * 1024)
      throw std::logic_error{"a block with " + std::to_string(grid.shared_bytes) +
                             " bytes of shared memory"};
  }

  void run() {
    for (unsigned z = 0; z < grid_.blocks.z; ++z)
      for (unsigned y = 0; y < grid_.blocks.y; ++y)
        for (unsigned x = 0; x < grid_.blocks.x; ++x)
          run_block({x, y, z});
  }

  void enter() {
    arrive(current().fiber->stack, own_stack_);
    try {
      kernel_();
    } catch (...) {
      error_ = std::current_exception();
    }
    Fiber& self = *current().fiber;
    if (!self.open.empty() || !self.groups.empty()) {
      error_ = std::make_exception_ptr(std::logic_error{"a thread ends with copies under way"});
    }
    self.waiting = Waiting::done;
    leave_for(nullptr, own_stack_);
    _longjmp(scheduler_, 1);
  }

  void pause(Waiting why) {
    Fiber& self = *current().fiber;
    self.waiting = why;
    leave_for(&self.stack, own_stack_);
    if (_setjmp(self.resume) == 0) _longjmp(scheduler_, 1);
    arrive(self.stack, own_stack_);
  }

  WarpView meet(WarpOp op, const void* operand, std::size_t bytes) {
    Fiber& self = *current().fiber;
    std::byte* slots = warps_[static_cast<std::size_t>(self.number / warp_size)].slots.data() +
                       (self.meetings % 2) * warp_size * WarpView::slot_bytes;
    ++self.meetings;
    std::memcpy(slots + static_cast<std::size_t>(self.number % warp_size) * WarpView::slot_bytes,
                operand, bytes);
    self.op = op;
    pause(Waiting::warp);
    return {slots};
  }

  const Grid& grid() const { return grid_; }
  const Dim3& block() const { return block_; }
  std::byte* shared() {
    const auto address = reinterpret_cast<std::uintptr_t>(shared_.data());
    return shared_.data() + (1024 - address % 1024) % 1024;
  }

 private:
  void run_block(Dim3 block) {
    block_ = block;
    std::memset(shared_.data(), 0xff, shared_.size());
    fibers_ = std::vector<Fiber>(count_);
    warps_ = std::vector<Warp>(count_ / warp_size);
    for (std::size_t i = 0; i < count_; ++i) {
      const auto number = static_cast<unsigned>(i);
      fibers_[i].number = static_cast<int>(i);
      fibers_[i].index = {number % grid_.threads.x, number / grid_.threads.x % grid_.threads.y,
                          number / grid_.threads.x / grid_.threads.y};
    }
    while (run_to_barrier()) {
    }
  }

  // Runs all warps until each of their threads stands at a block barrier or is done. False: done.
  bool run_to_barrier() {
    const std::size_t warps = warps_.size();
    std::size_t done = 0;
    for (std::size_t i = 0; i < warps; ++i)
      done += run_warp(current().order == Order::ascending ? i : warps - 1 - i);
    if (done == count_) return false;
    if (done != 0) throw std::logic_error{"a block barrier that some threads have left behind"};
    for (Fiber& fiber : fibers_)
      fiber.waiting = Waiting::no;
    return true;
  }

  std::size_t run_warp(std::size_t warp) {
    Fiber* const lanes = fibers_.data() + warp * warp_size;
    while (true) {
      std::array<std::size_t, 4> count{};
      for (int i = 0; i < warp_size; ++i) {
        Fiber& fiber = lanes[current().order == Order::ascending ? i : warp_size - 1 - i];
        if (fiber.waiting == Waiting::no) resume(fiber);
        ++count[static_cast<std::size_t>(fiber.waiting)];
      }
      const std::size_t meeting = count[static_cast<std::size_t>(Waiting::warp)];
      if (meeting == 0) return count[static_cast<std::size_t>(Waiting::done)];
      if (meeting != warp_size)
        throw std::logic_error{"a warp-wide operation that some lanes do not reach"};
      for (int i = 0; i < warp_size; ++i) {
        if (lanes[i].op != lanes[0].op)
          throw std::logic_error{"lanes of a warp at different operations"};
        lanes[i].waiting = Waiting::no;
      }
    }
  }

  static void trampoline() { current().machine->enter(); }

  void resume(Fiber& fiber) {
    current().fiber = &fiber;
    fiber.stack.bottom = stacks_.at(static_cast<std::size_t>(fiber.number));
    fiber.stack.bytes = Stacks::bytes;
    leave_for(&own_stack_, fiber.stack);
    if (_setjmp(scheduler_) == 0) {
      if (fiber.started) _longjmp(fiber.resume, 1);
      fiber.started = true;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = stacks_.at(static_cast<std::size_t>(fiber.number));
      fiber.context.uc_stack.ss_size = Stacks::bytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, trampoline, 0);
      setcontext(&fiber.context);
    }
    arrive(own_stack_, current().fiber->stack);
    if (error_) std::rethrow_exception(error_);
  }

  Grid grid_;
  const std::function<void()>& kernel_;
  std::size_t count_ = 0;
  const Stacks& stacks_;
  std::vector<std::byte> shared_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  Dim3 block_;
  jmp_buf scheduler_{};
  StackBounds own_stack_;
  std::exception_ptr error_;
};

void carry_out(const std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    if (copy.valid) {
      std::memcpy(copy.to, copy.from, copy.bytes);
    } else {
      std::memset(copy.to, 0, copy.bytes);
    }
  }
}

}  // namespace

void set_order(Order order) {
  current().order = order;
}

void run(const Grid& grid, const std::function<void()>& kernel) {
  if (current().machine != nullptr) throw std::logic_error{"a kernel that launches a kernel"};
  Machine machine{grid, kernel};
  struct Guard {
    ~Guard() { current().machine = nullptr; }
  } guard;
  current().machine = &machine;
  machine.run();
}

const Dim3& thread_index() {
  return current().fiber->index;
}
const Dim3& block_index() {
  return current().machine->block();
}
const Dim3& block_size() {
  return current().machine->grid().threads;
}
const Dim3& grid_size() {
  return current().machine->grid().blocks;
}
std::byte* shared_memory() {
  return current().machine->shared();
}
int lane() {
  return current().fiber->number % warp_size;
}
void block_barrier() {
  current().machine->pause(Waiting::barrier);
}
WarpView warp_meet(WarpOp op, const void* operand, std::size_t bytes) {
  return current().machine->meet(op, operand, bytes);
}

namespace {
void start_copy(void* to, const void* from, std::size_t bytes, bool valid) {
  if (reinterpret_cast<std::uintptr_t>(to) % bytes != 0 ||
      (valid && reinterpret_cast<std::uintptr_t>(from) % bytes != 0)) {
    throw std::logic_error{"an asynchronous copy of " + std::to_string(bytes) +
                           " bytes that is not aligned"};
  }
  current().fiber->open.push_back(
      {static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes, valid});
}
}  // namespace

void start_copy_16(void* to, const void* from, bool valid) {
  start_copy(to, from, 16, valid);
}
void start_copy_4(void* to, const void* from, bool valid) {
  start_copy(to, from, 4, valid);
}
void commit_copies() {
  Fiber& self = *current().fiber;
  self.groups.push_back(std::move(self.open));
  self.open.clear();
}
void wait_for_copies(int pending_groups) {
  Fiber& self = *current().fiber;
  while (self.groups.size() > static_cast<std::size_t>(pending_groups)) {
    carry_out(self.groups.front());
    self.groups.pop_front();
  }
}

}  // namespace emulation
