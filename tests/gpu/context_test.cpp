// Ranks of a sequence: what they compute together is what one of them computes of all tokens.
#include "real/engine/kernels/context.hpp"

#include "real/engine/kernels/shared_heads.hpp"
#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::kernels::ContextShare;
using real::kernels::HeadExchange;
using real::kernels::HeadsShape;
using real::kernels::MergeTurn;
using real::kernels::SliceShape;
using sim::DType;

namespace {

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// Rows of whole sequences that a rank holds, columns [first, first + width) of them.
struct Part {
  std::int64_t sequences = 0, held = 0, ranks = 1, row = 0, first = 0, width = 0;
  // visit(element of the part, element of the whole)
  template <class Visit>
  void for_each(std::int64_t rank, Visit visit) const {
    const ContextShare share{ranks, rank};
    for (std::int64_t t = 0; t < sequences * held; ++t) {
      const std::int64_t whole = t / held * held * ranks + share.position(t % held, held);
      for (std::int64_t i = 0; i < width; ++i)
        visit(index(t * width + i), index(whole * row + first + i));
    }
  }
  Numbers of(const Numbers& whole, std::int64_t rank) const {
    Numbers part(index(sequences * held * width));
    for_each(rank, [&](std::size_t at, std::size_t from) { part[at] = whole[from]; });
    return part;
  }
};

struct Whole {
  HeadsShape shape;  // of all tokens
  bool causal = true;
  Numbers qkv, dout, output, gradient;
};

// By the kernels for whole sequences, in fp32, which attention_test.cpp holds to double.
Whole make_whole(const HeadsShape& part, std::int64_t ranks, bool causal) {
  Whole whole{part, causal, {}, {}, {}, {}};
  HeadsShape& h = whole.shape;
  h.tokens *= ranks;
  h.sequence *= ranks;
  whole.qkv = random_numbers(1, index(h.tokens * h.row()), h.dtype);
  whole.dout = random_numbers(2, index(h.tokens * h.heads * h.head_dim), h.dtype);
  for (double& number : whole.qkv)  // scores that differ
    number *= 2;
  h.dtype = DType::fp32;
  const Array qkv{h.dtype, whole.qkv}, dout{h.dtype, whole.dout};
  const Array output{h.dtype, dout.size()}, gradient{h.dtype, qkv.size()};
  const Array sums{h.dtype, index(h.tokens * h.heads)};
  const real::kernels::AttentionShape shape{h, causal};
  const Scratch scratch{real::kernels::attention_backward_workspace(shape)};
  attention_forward(shape, qkv.data(), output.data(), sums.floats(), nullptr);
  attention_backward(shape,
                     {qkv.data(), output.data(), sums.floats(), dout.data(), gradient.data()},
                     scratch.workspace(), nullptr);
  whole.output = output.numbers();
  whole.gradient = gradient.numbers();
  h.dtype = part.dtype;
  return whole;
}

// All ranks of a sequence, one after another.
class Ranks {
 public:
  Ranks(const HeadsShape& part, std::int64_t ranks, bool causal)
      : whole_{make_whole(part, ranks, causal)}, part_{part}, ranks_{ranks} {
    const std::int64_t rows = part.row(), outs = part.heads * part.head_dim;
    of_rows_ = {part.tokens / part.sequence, part.sequence, ranks, rows, 0, rows};
    of_keys_ = {part.tokens / part.sequence, part.sequence, ranks, rows, outs, rows - outs};
    of_outputs_ = {part.tokens / part.sequence, part.sequence, ranks, outs, 0, outs};
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Numbers keys = of_keys_.of(whole_.qkv, rank);
      qkv_.emplace_back(part.dtype, of_rows_.of(whole_.qkv, rank));
      keys_.emplace_back(part.dtype, keys);
      dout_.emplace_back(part.dtype, of_outputs_.of(whole_.dout, rank));
      output_.emplace_back(part.dtype, index(part.tokens * outs));
      sums_.emplace_back(DType::fp32, index(part.tokens * part.heads));
      all_keys_.insert(all_keys_.end(), keys.begin(), keys.end());
    }
  }

  void gather() {
    const Array keys{part_.dtype, all_keys_};
    Numbers sum(all_keys_.size());
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      CAPTURE(rank);
      const SliceShape shape = slices(rank, 0, ranks_);
      const Array gradient{part_.dtype, qkv_[0].size()}, keys_gradient{part_.dtype, keys.size()};
      attend(shape, qkv_[index(rank)].data(), keys.data(), output_[index(rank)].data(),
             sums_[index(rank)].floats(), nullptr);
      backward(rank, shape, keys.data(), gradient.data(), keys_gradient.data());
      check_outputs(rank);
      Numbers expected = of_rows_.of(whole_.gradient, rank);
      for (std::size_t i = 0; i < expected.size(); ++i)
        if (is_key(i)) expected[i] = 0;
      CHECK(worst_error(gradient.numbers(), expected) < tolerance(part_.dtype));
      const Numbers own = keys_gradient.numbers();
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += own[i];
    }
    Numbers expected;
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      const Numbers keys_of = of_keys_.of(whole_.gradient, rank);
      expected.insert(expected.end(), keys_of.begin(), keys_of.end());
    }
    CHECK(worst_error(sum, expected) < tolerance(part_.dtype));
  }

  void ring() {
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      CAPTURE(rank);
      attend(slices(rank, rank, 1), qkv_[index(rank)].data(), nullptr, output_[index(rank)].data(),
             sums_[index(rank)].floats(), nullptr);
      for (std::int64_t turn = 1; turn < ranks_; ++turn)
        merge(rank, (rank - turn + ranks_) % ranks_);
      check_outputs(rank);
    }
    std::vector<Array> gradients, sums;  // sums: of the slice that a rank has
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      gradients.emplace_back(part_.dtype, qkv_[0].size());
      sums.emplace_back(part_.dtype, keys_[0].size());
    }
    for (std::int64_t turn = 0; turn < ranks_; ++turn) {
      for (std::int64_t rank = 0; rank < ranks_; ++rank)
        add(rank, turn, gradients[index(rank)], sums[index(rank)]);
      std::rotate(sums.begin(), sums.begin() + 1, sums.end());  // to the ranks before
    }
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      CAPTURE(rank);
      CHECK(worst_error(gradients[index(rank)].numbers(), of_rows_.of(whole_.gradient, rank)) <
            tolerance(part_.dtype) * static_cast<double>(ranks_));  // a rounding for each part
    }
  }

 private:
  bool is_key(std::size_t i) const {
    return static_cast<std::int64_t>(i) % part_.row() >= part_.heads * part_.head_dim;
  }
  SliceShape slices(std::int64_t rank, std::int64_t first, std::int64_t count) const {
    SliceShape shape{.heads = part_, .causal = whole_.causal, .first = first, .count = count};
    shape.heads.context = {ranks_, rank};
    return shape;
  }
  void check_outputs(std::int64_t rank) const {
    CHECK(worst_error(output_[index(rank)].numbers(), of_outputs_.of(whole_.output, rank)) <
          tolerance(part_.dtype) * static_cast<double>(ranks_));
  }
  void backward(std::int64_t rank, const SliceShape& shape, const void* keys, void* gradient,
                void* keys_gradient) {
    const Scratch scratch{real::kernels::attention_backward_workspace({part_, whole_.causal})};
    attend_backward(shape,
                    {{qkv_[index(rank)].data(), output_[index(rank)].data(),
                      sums_[index(rank)].floats(), dout_[index(rank)].data(), gradient},
                     keys,
                     keys_gradient},
                    scratch.workspace(), nullptr);
  }
  void merge(std::int64_t rank, std::int64_t slice) {
    const Array part{part_.dtype, output_[0].size()}, part_sums{DType::fp32, sums_[0].size()};
    const SliceShape shape = slices(rank, slice, 1);
    attend(shape, qkv_[index(rank)].data(), keys_[index(slice)].data(), part.data(),
           part_sums.floats(), nullptr);
    merge_outputs(
        shape,
        {part.data(), part_sums.floats(), output_[index(rank)].data(), sums_[index(rank)].floats()},
        nullptr);
  }
  void add(std::int64_t rank, std::int64_t turn, const Array& gradient, const Array& sum) {
    const std::int64_t slice = (rank + turn + 1) % ranks_;
    const bool last = turn + 1 == ranks_;
    const SliceShape shape = slices(rank, slice, 1);
    const Array part{part_.dtype, qkv_[0].size()};
    backward(rank, shape, last ? nullptr : keys_[index(slice)].data(), part.data(), nullptr);
    const MergeTurn how = turn == 0 ? MergeTurn::first : last ? MergeTurn::last : MergeTurn::middle;
    merge_gradients(shape, {how, part.data(), gradient.data(), sum.data()}, nullptr);
  }

  Whole whole_;
  HeadsShape part_;
  std::int64_t ranks_;
  Part of_rows_, of_keys_, of_outputs_;
  std::vector<Array> qkv_, keys_, dout_, output_, sums_;  // by rank
  Numbers all_keys_;
};

void check_ranks(const HeadsShape& part, std::int64_t ranks, bool causal) {
  CAPTURE(part.tokens, part.sequence, part.heads, part.kv_heads, part.head_dim, ranks, causal);
  Ranks all{part, ranks, causal};
  all.gather();
  all.ring();
}

Numbers copied(const HeadExchange& shape, const Numbers& tensor, bool all_tokens) {
  const std::int64_t tokens = shape.sequences * shape.held;
  Numbers message(index(shape.message()));
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank)
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t i = 0; i < shape.width; ++i) {
        const ContextShare share{shape.ranks, rank};
        const std::int64_t row = all_tokens ? t / shape.held * shape.held * shape.ranks +
                                                  share.position(t % shape.held, shape.held)
                                            : t;
        const std::int64_t column = shape.first + (all_tokens ? 0 : rank * shape.width) + i;
        message[index((rank * tokens + t) * shape.width + i)] =
            tensor[index(row * shape.row + column)];
      }
  return message;
}

}  // namespace

TEST_CASE("ranks of a sequence attend as one does with all of it", "[gpu][context]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const bool causal = GENERATE(true, false);
  run_in_descending_order(causal);
  SECTION("three ranks, two sequences, chunks shorter than a tile, grouped queries") {
    check_ranks({dtype, 2 * 10, 10, 2, 1, 16}, 3, causal);
  }
  SECTION("chunks longer than a block's rows") {
    if (dtype == DType::bf16) check_ranks({dtype, 260, 260, 1, 1, 32}, 2, causal);
  }
  SECTION("a wide head") {
    check_ranks({dtype, 70, 70, 2, 2, 112}, 2, causal);
  }
  run_in_descending_order(false);
}

TEST_CASE("attention over slices refuses what it cannot cut", "[gpu][context]") {
  const auto run = [](std::int64_t sequence, std::int64_t ranks, std::int64_t count) {
    SliceShape shape{.heads = {DType::bf16, sequence, sequence, 1, 1, 64}, .count = count};
    shape.heads.context = {ranks, 0};
    attend(shape, nullptr, nullptr, nullptr, nullptr, nullptr);
  };
  CHECK_THROWS_WITH(run(7, 2, 1), "attend: sequences are cut into two chunks of each rank");
  CHECK_THROWS_WITH(run(8, 3, 2), "attend: works on the slice of one rank, or of all");
}

TEST_CASE("heads are put in the order of ranks, and back in that of tokens", "[gpu][context]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const bool all_tokens = GENERATE(false, true);
  const std::int64_t width = GENERATE(16, 3);  // with and without vectors
  const HeadExchange shape{.dtype = dtype,
                           .sequences = 2,
                           .held = 6,
                           .ranks = 3,
                           .row = 5 * width,
                           .first = 2 * width,
                           .width = width,
                           .all_tokens = all_tokens};
  const Numbers numbers = random_numbers(3, index(shape.tensor()), dtype);
  const Array tensor{dtype, numbers}, message{dtype, index(shape.message())};
  const Array back{dtype, Numbers(index(shape.tensor()), 0.0)};
  order_by_rank(shape, tensor.data(), message.data(), nullptr);
  order_by_token(shape, message.data(), back.data(), nullptr);
  CHECK(message.numbers() == copied(shape, numbers, all_tokens));
  CHECK(copied(shape, back.numbers(), all_tokens) == message.numbers());
}

TEST_CASE("a rank of a sequence has the positions of its tokens", "[gpu][context]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::int64_t ranks = 2, held = 6, tokens = 2 * held;
  const HeadsShape whole{dtype, ranks * tokens, ranks * held, 1, 1, 16};
  const Part part{2, held, ranks, whole.row(), 0, whole.row()};
  const Numbers rows = random_numbers(4, index(whole.tokens * whole.row()), dtype);
  const Array table{DType::fp32, index(ranks * held * 16)};
  real::kernels::fill_rotary_table(ranks * held, 16, 10'000, table.floats(), nullptr);
  const Array all{dtype, rows};
  rotary(whole, false, table.floats(), all.data(), all.data(), nullptr);
  const std::int64_t width = whole.row();
  const real::kernels::TableShape learned{dtype, 0, ranks * held + 1, width};
  const Numbers words = random_numbers(5, index(learned.rows * width), dtype);
  const Array places{dtype, words}, given{dtype, rows}, sums{dtype, rows};
  const Array summed{DType::fp32, words.size()};
  const real::kernels::Positions everywhere{ranks * tokens, ranks * held, 0};
  add_table_forward(learned, everywhere, places.data(), sums.data(), sums.data(), nullptr);
  add_table_backward(learned, everywhere, {given.data(), summed.data(), DType::fp32, false},
                     nullptr);
  Numbers gradient(words.size());
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    const Array own{dtype, part.of(rows, rank)}, turned{dtype, own.size()};
    const Array added{dtype, own.size()}, part_gradient{DType::fp32, words.size()};
    HeadsShape shape{dtype, tokens, held, 1, 1, 16};
    shape.context = {ranks, rank};
    rotary(shape, false, table.floats(), own.data(), turned.data(), nullptr);
    CHECK(turned.numbers() == part.of(all.numbers(), rank));
    const real::kernels::Positions here{tokens, held, 0, shape.context};
    add_table_forward(learned, here, places.data(), own.data(), added.data(), nullptr);
    CHECK(added.numbers() == part.of(sums.numbers(), rank));
    add_table_backward(learned, here, {own.data(), part_gradient.data(), DType::fp32, false},
                       nullptr);
    const Numbers more = part_gradient.numbers();
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] += more[i];
  }
  CHECK(worst_error(gradient, summed.numbers()) < 1e-6);
}

TEST_CASE("a tensor rank takes its own heads out of all, and their gradient goes back",
          "[gpu][key_heads]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::int64_t d = GENERATE(16, 6);  // with and without vectors
  // Six query heads and two key/value heads over four ranks: a part ends inside a head.
  real::kernels::SharedHeads shape{.dtype = dtype, .tokens = 3, .ranks = 4, .features = 10 * d};
  shape.own = {{{3 * d / 2, 3 * d / 2}, {7 * d, d}, {9 * d, d}}};
  const std::int64_t width = shape.features / shape.ranks;
  const Numbers numbers = random_numbers(6, index(shape.tokens * shape.features), dtype);
  const Array gathered{dtype, numbers}, own{dtype, numbers.size()}, back{dtype, numbers.size()};
  take_heads(shape, gathered.data(), own.data(), nullptr);
  spread_heads(shape, own.data(), back.data(), nullptr);
  Numbers expected(numbers.size()), spread(numbers.size());
  std::int64_t at = 0;
  for (std::int64_t token = 0; token < shape.tokens; ++token)
    for (const real::kernels::Range& range : shape.own)
      for (std::int64_t column = range.at; column < range.at + range.elements; ++column, ++at) {
        const std::int64_t from = (column / width * shape.tokens + token) * width + column % width;
        expected[index(at)] = spread[index(from)] = numbers[index(from)];
      }
  CHECK(own.numbers() == expected);
  CHECK(back.numbers() == spread);
}
