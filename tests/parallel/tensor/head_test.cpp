// The exit of a model against the formulas: softmax cross entropy by its logits, gradients by
// differences; and over a divided vocabulary, with rows divided or not, what one rank computes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/tensor/head.hpp>
#include <parallel/tensor/slices.hpp>
#include <parallel/train/model.hpp>

namespace head_test {

using parallel::index;
using parallel::matrix_view;
using communicator = parallel::threads::communicator;
using numbers = std::vector<double>;

constexpr index rows = 12;
constexpr index width = 4;
constexpr index vocabulary = 6;

numbers random(index count, std::uint32_t which) {
  parallel::philox const source(5, which);
  numbers out;
  for (index i = 0; i < count; ++i) out.push_back(source.normal(static_cast<std::uint64_t>(i)));
  return out;
}

std::vector<std::int32_t> labels() {
  std::vector<std::int32_t> out;
  for (index i = 0; i < rows; ++i)
    out.push_back(i % 5 == 3 ? -100 : static_cast<std::int32_t>(i * 7 % vocabulary));
  return out;
}
constexpr std::int64_t loss_tokens = 10;

struct passed {
  parallel::train::statistics<double> sums;
  numbers dx, weight, gain, logits;  // the last on one rank
};

struct how {
  int ranks = 1;
  bool sequence = false;
  double scale = 0.5;
  double softcap = 0;
};

/// `decorate` makes what a rank exchanges by.
template <class Decorate>
passed run(how const& of, numbers const& x, Decorate const& decorate) {
  passed out;
  out.dx.resize(rows * width);
  out.weight.resize(vocabulary * width);
  out.gain.resize(width);
  std::mutex lock;
  parallel::threads::run(of.ranks, [&](communicator& undecorated) {
    auto comm = decorate(std::move(undecorated));
    parallel::host::stream compute, exchanges;
    parallel::tensor::head<double, decltype(comm)> head;
    head.tensor_region = {{comm, exchanges}, of.sequence};
    head.logit_scale = of.scale;
    head.softcap = of.softcap;
    parallel::tensor::axis_position const at{comm.rank(), of.ranks};
    auto const [begin, here] = at.part_of(vocabulary, "the vocabulary");
    head.norm_f.weight = {"gain", {width}};
    head.weight = keep_rows(at, parallel::parameter<double, 2>("weight", {vocabulary, width}),
                            {{begin, here}});
    auto gain = random(width, 2);
    auto const all = random(vocabulary * width, 3);
    numbers weight(all.begin() + begin * width, all.begin() + (begin + here) * width);
    numbers d_gain(gain.size()), d_weight(weight.size());
    head.norm_f.weight.data = gain.data();
    head.norm_f.weight.gradient_data = d_gain.data();
    head.weight.data = weight.data();
    head.weight.gradient_data = d_weight.data();
    std::vector<std::byte> space(1U << 16U);
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::context<parallel::host::stream> c{.stream = compute, .memory = memory};
    index const outside = head.tensor_region.rows_outside(rows);
    index const first = head.tensor_region.divides_rows() ? comm.rank() * outside : 0;
    numbers dx(static_cast<std::size_t>(outside * width));
    auto const targets = labels();
    parallel::train::statistics<double> sums;
    matrix_view<double const> const own(x.data() + first * width, {outside, width});
    head.loss(c, {targets.data(), {rows}}, loss_tokens, own, {dx.data(), {outside, width}}, sums);
    compute.synchronize();
    std::scoped_lock const guard(lock);
    out.sums.loss += sums.loss;
    out.sums.tokens += sums.tokens;
    out.sums.correct += sums.correct;
    std::copy(dx.begin(), dx.end(), out.dx.begin() + first * width);
    std::copy(d_weight.begin(), d_weight.end(), out.weight.begin() + begin * width);
    if (head.tensor_region.divides_rows() || comm.rank() == 0)
      for (std::size_t i = 0; i < d_gain.size(); ++i) out.gain[i] += d_gain[i];
    if (of.ranks > 1) return;
    auto const logits = head.logits(c, own);
    compute.synchronize();
    out.logits.assign(logits.span().begin(), logits.span().end());
  });
  return out;
}

passed run(how const& of, numbers const& x = random(rows * width, 1)) {
  return run(of, x, [](communicator comm) { return comm; });
}

void check_close(numbers const& found, numbers const& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, std::abs(found[i] - expected[i]));
  CHECK(worst <= tolerance);
}

TEST_CASE("the loss is the logits' cross entropy, summed over labelled rows, and dx its gradient") {
  for (double const cap : {0.0, 1.5}) {
    how const of{.softcap = cap};
    auto const one = run(of);
    double loss = 0;
    std::int64_t correct = 0;
    auto const targets = labels();
    for (std::size_t r = 0; r < targets.size(); ++r) {
      if (targets[r] < 0) continue;
      auto const* const z = one.logits.data() + r * vocabulary;
      double sum = 0;
      for (index v = 0; v < vocabulary; ++v) sum += std::exp(z[v]);
      loss += std::log(sum) - z[targets[r]];
      correct += std::max_element(z, z + vocabulary) - z == targets[r] ? 1 : 0;
      if (cap > 0) CHECK(std::abs(z[0]) <= cap);
    }
    CHECK(one.sums.loss == doctest::Approx(loss).epsilon(1e-13));
    CHECK(one.sums.tokens == loss_tokens);
    CHECK(one.sums.correct == correct);
    double const step = 1e-6;
    for (index const at : {index{0}, index{6}, index{13}, rows * width - 1}) {
      auto up = random(rows * width, 1), down = up;
      up[static_cast<std::size_t>(at)] += step;
      down[static_cast<std::size_t>(at)] -= step;
      double const slope = (run(of, up).sums.loss - run(of, down).sums.loss) / (2 * step);
      CHECK(one.dx[static_cast<std::size_t>(at)] == doctest::Approx(slope).epsilon(1e-6));
    }
  }
}

TEST_CASE("a divided vocabulary gives one rank's loss, counts and gradients") {
  for (double const cap : {0.0, 1.5}) {
    auto const one = run({.softcap = cap});
    for (int const ranks : {2, 3, 4, 5, 6})
      for (bool const sequence : {false, true}) {
        if (sequence && rows % ranks != 0) continue;
        CAPTURE(ranks);
        CAPTURE(sequence);
        auto const found = run({.ranks = ranks, .sequence = sequence, .softcap = cap});
        CHECK(found.sums.loss == doctest::Approx(one.sums.loss).epsilon(1e-13));
        CHECK(found.sums.tokens == one.sums.tokens);
        CHECK(found.sums.correct == one.sums.correct);
        check_close(found.dx, one.dx, 1e-13);
        check_close(found.weight, one.weight, 1e-13);
        check_close(found.gain, one.gain, 1e-13);
      }
  }
}

TEST_CASE("every broken exchange of unequal slices changes loss or gradients") {
  how const of{.ranks = 4, .sequence = true};  // of 2, 2, 1 and 1 words
  auto const sound = run(of);
  constexpr std::uint64_t calls = 3;  // rows, statistics, addends of gradients
  for (std::uint64_t call = 0; call <= calls; ++call)
    for (auto const kind : {parallel::fault_kind::drop, parallel::fault_kind::twice})
      for (int rank = 0; rank < of.ranks; ++rank) {
        CAPTURE(call);
        CAPTURE(rank);
        auto const broken = run(of, random(rows * width, 1), [&](communicator comm) {
          auto const what = comm.rank() == rank ? parallel::fault{call, kind} : parallel::fault{};
          return parallel::faulty(std::move(comm), what);
        });
        bool const same = broken.sums.loss == sound.sums.loss && broken.dx == sound.dx &&
                          broken.weight == sound.weight;
        CHECK(same == (call == calls));  // there is none more
      }
}

TEST_CASE("ranks with unequal slices cut rows into the same chunks") {
  using group = parallel::axis_group<parallel::axis::tensor, communicator>;
  auto const chunk = [](int rank, int ranks) {
    parallel::tensor::axis_position const at{rank, ranks};
    parallel::tensor::head<float, communicator> head;
    head.tensor_region = {group::planned(rank, ranks), false};
    head.logits_bytes = 4 * 128 * 8;  // 512 rows of 2 words, 1024 of one
    head.weight =
        keep_rows(at, parallel::parameter<float, 2>("weight", {6, 1}), {at.part_of(6, "words")});
    return head.chunk_rows(1024, sizeof(float));
  };
  for (int rank = 0; rank < 4; ++rank) CHECK(chunk(rank, 4) == 512);
  CHECK(chunk(0, 1) == 128);
}

TEST_CASE("in bf16 training rounds logits to bf16, their gradient in their place; others do not") {
  using parallel::bf16;
  constexpr index many = 640;  // words, so that logits are most of the memory
  auto const rounded = [](numbers const& values) {
    std::vector<bf16> out;
    for (double const v : values) out.emplace_back(static_cast<float>(v));
    return out;
  };
  auto x = rounded(random(rows * width, 1)), gain = rounded(random(width, 2)),
       weight = rounded(random(many * width, 3));
  std::vector<bf16> dx(x.size());
  std::vector<float> d_gain(gain.size()), d_weight(weight.size());
  auto const targets = labels();
  parallel::threads::run(1, [&](communicator& comm) {
    parallel::host::stream compute, exchanges;
    parallel::tensor::head<bf16, communicator> head;
    head.tensor_region = {{comm, exchanges}, false};
    head.norm_f.weight = {"gain", {width}};
    head.weight = {"weight", {many, width}};
    head.norm_f.weight.data = gain.data();
    head.norm_f.weight.gradient_data = d_gain.data();
    head.weight.data = weight.data();
    head.weight.gradient_data = d_weight.data();
    std::vector<std::byte> space(1U << 20U);
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::context<parallel::host::stream> c{.stream = compute, .memory = memory};
    matrix_view<bf16 const> const own(x.data(), {rows, width});
    parallel::vector_view<std::int32_t const> const asked(targets.data(), {rows});
    parallel::train::statistics<double> training, evaluation;
    head.loss(c, asked, loss_tokens, own, {dx.data(), {rows, width}}, training);
    CHECK(memory.peak() < 3 * rows * many);  // bytes: one logit or its gradient, of two
    head.loss(c, asked, loss_tokens, own, {}, evaluation);

    // the same by operations
    typename parallel::norm<bf16>::saved kept;
    auto const y = head.norm_f.forward(c, own, kept);
    auto const exact = head.logits(c, own);
    auto logits = c.allocate<bf16, 2>({rows, many});
    auto losses = c.allocate<float, 1>({rows});
    auto correct = c.allocate<std::uint8_t, 1>({rows});
    double expected_training = 0, expected_evaluation = 0;
    auto const add = [&](double& sum, auto const& dlogits, auto const& of) {
      parallel::ops::cross_entropy(compute, dlogits, losses, correct, of, asked);
      parallel::ops::sum(compute, &sum, losses.span());
    };
    parallel::ops::cast(compute, logits.span(), exact.span());
    add(expected_training, logits, logits);
    add(expected_evaluation, matrix_view<bf16>(), exact);
    std::vector<float> expected_weight(weight.size());
    parallel::ops::matmul(compute, matrix_view<float>(expected_weight.data(), {many, width}),
                          logits, y, {.transpose_a = true});
    compute.synchronize();
    CHECK(training.loss == expected_training);
    CHECK(evaluation.loss == expected_evaluation);
    CHECK(training.loss != evaluation.loss);
    CHECK(d_weight == expected_weight);
  });
}

TEST_CASE("chunks of logits make one gradient together, which replaces a fresh one or is added") {
  constexpr index many = 300;  // rows: three chunks of 128, 128 and 44
  numbers const x = random(many * width, 1);
  std::vector<std::int32_t> targets;
  for (index i = 0; i < many; ++i) targets.push_back(static_cast<std::int32_t>(i % vocabulary));
  struct outcome {
    double loss = 0;
    numbers dx, weight;
  };
  double const before = 5;  // in the weights' gradient
  auto const descend = [&](index logits_bytes, bool fresh, double cap) {
    outcome out{.dx = numbers(x.size()), .weight = numbers(vocabulary * width, before)};
    auto gain = random(width, 2), weight = random(vocabulary * width, 3);
    numbers d_gain(gain.size());
    parallel::threads::run(1, [&](communicator& comm) {
      parallel::host::stream compute, exchanges;
      parallel::tensor::head<double, communicator> head;
      head.tensor_region = {{comm, exchanges}, false};
      head.softcap = cap;
      head.logits_bytes = logits_bytes;
      head.norm_f.weight = {"gain", {width}};
      head.weight = {"weight", {vocabulary, width}};
      head.norm_f.weight.data = gain.data();
      head.norm_f.weight.gradient_data = d_gain.data();
      head.weight.data = weight.data();
      head.weight.gradient_data = out.weight.data();
      CHECK((head.chunk_rows(many, sizeof(double)) < many) == (logits_bytes == 1));
      std::vector<std::byte> space(1U << 18U);
      parallel::arena memory({nullptr, space.data(), space.size()});
      parallel::context<parallel::host::stream> c{
          .stream = compute, .memory = memory, .overwrite_gradients = fresh};
      parallel::train::statistics<double> sums;
      head.loss(c, {targets.data(), {many}}, many, {x.data(), {many, width}},
                {out.dx.data(), {many, width}}, sums);
      compute.synchronize();
      out.loss = sums.loss;
    });
    return out;
  };
  for (double const cap : {0.0, 1.5}) {
    CAPTURE(cap);
    auto const whole = descend(index{1} << 29, true, cap);
    auto added = whole.weight;
    for (double& g : added) g += before;
    for (bool const fresh : {true, false}) {
      CAPTURE(fresh);
      auto const chunked = descend(1, fresh, cap);
      CHECK(chunked.loss == doctest::Approx(whole.loss).epsilon(1e-13));
      check_close(chunked.dx, whole.dx, 1e-13);
      check_close(chunked.weight, fresh ? whole.weight : added, 1e-12);
    }
  }
}

TEST_CASE("logits exist for a bounded number of rows at once, in chunks about equal") {
  parallel::tensor::head<double, communicator> head;
  head.weight = {"weight", {index{1} << 18, 1}};  // 512 rows of 4 bytes are 512 MiB
  head.logits_bytes = index{1} << 29;
  CHECK(head.chunk_rows(512, 4) == 512);
  CHECK(head.chunk_rows(513, 4) == 384);
  CHECK(head.chunk_rows(513, 2) == 513);
  CHECK(head.chunk_rows(1000, 4) == 512);
  CHECK(head.chunk_rows(1280, 4) == 512);
  CHECK(head.chunk_rows(100, 1000) == 100);
  CHECK(head.chunk_rows(1000, 1000) == 128);
  CHECK(head.chunk_rows(0, 4) == 0);
  head.logits_bytes = index{1} << 28;
  CHECK(head.chunk_rows(513, 2) == 384);
  head.logits_bytes = 1;
  CHECK(head.chunk_rows(513, 2) == 128);
}

TEST_CASE("chunks of MPT's logits keep the processors of a GPU busy") {
  struct chunking {
    index model, all, chunk, turns;
  };
  for (auto const& [model, all, chunk, turns] :
       {chunking{768, 16 * 2048, 5504, 6},     // 129 tiles for 132 processors
        chunking{1024, 16 * 2048, 4096, 8},    // 128; in chunks of 5504 rows 12 turns
        chunking{1536, 8 * 2048, 5504, 6},     // 258 in two turns
        chunking{2048, 8 * 2048, 4096, 8},     // twice 128
        chunking{4096, 2 * 2048, 4096, 4}}) {  // all at once
    parallel::tensor::head<double, communicator> head;
    head.weight = {"weight", {50368, model}};
    CHECK(head.chunk_rows(all, 2) == chunk);
    index const tiles = chunk / 128 * (model / 256);
    CHECK((all + chunk - 1) / chunk * ((tiles + 131) / 132) == turns);
  }
}

}  // namespace head_test
