// The head of a model against the formulas: softmax cross entropy by its logits, gradients by
// differences; and over a divided vocabulary, with rows divided or not, against one rank.
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

numbers random(index count, std::uint32_t stream_id) {
  parallel::philox const source(5, stream_id);
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
  numbers dx, weight, gain, logits;  // logits only on one rank
};

struct options {
  int ranks = 1;
  bool sequence = false;
  double scale = 0.5;
  double softcap = 0;
};

/// `decorate` wraps the communicator of a rank.
template <class Decorate>
passed run(options const& settings, numbers const& x, Decorate const& decorate) {
  passed out;
  out.dx.resize(rows * width);
  out.weight.resize(vocabulary * width);
  out.gain.resize(width);
  std::mutex lock;
  parallel::threads::run(settings.ranks, [&](communicator& undecorated) {
    auto comm = decorate(std::move(undecorated));
    parallel::host::stream compute, exchanges;
    parallel::tensor::head<double, decltype(comm)> head;
    head.tensor_region = {{comm, exchanges}, settings.sequence};
    head.logit_scale = settings.scale;
    head.softcap = settings.softcap;
    parallel::tensor::axis_position const position{comm.rank(), settings.ranks};
    auto const [begin, count] = position.part_of(vocabulary, "the vocabulary");
    head.norm_f.weight = {"gain", {width}};
    head.weight = keep_rows(position, parallel::parameter<double, 2>("weight", {vocabulary, width}),
                            {{begin, count}});
    auto gain = random(width, 2);
    auto const whole_weight = random(vocabulary * width, 3);
    numbers weight(whole_weight.begin() + begin * width,
                   whole_weight.begin() + (begin + count) * width);
    numbers d_gain(gain.size()), d_weight(weight.size());
    head.norm_f.weight.data = gain.data();
    head.norm_f.weight.gradient_data = d_gain.data();
    head.weight.data = weight.data();
    head.weight.gradient_data = d_weight.data();
    std::vector<std::byte> space(1U << 16U);
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::context<parallel::host::stream> c{.stream = compute, .memory = memory};
    index const local_row_count = head.tensor_region.rows_outside(rows);
    index const first = head.tensor_region.divides_rows() ? comm.rank() * local_row_count : 0;
    numbers dx(static_cast<std::size_t>(local_row_count * width));
    auto const targets = labels();
    parallel::train::statistics<double> sums;
    matrix_view<double const> const local_x(x.data() + first * width, {local_row_count, width});
    head.loss(c, {targets.data(), {rows}}, loss_tokens, local_x,
              {dx.data(), {local_row_count, width}}, sums);
    compute.synchronize();
    std::scoped_lock const guard(lock);
    out.sums.loss += sums.loss;
    out.sums.tokens += sums.tokens;
    out.sums.correct += sums.correct;
    std::copy(dx.begin(), dx.end(), out.dx.begin() + first * width);
    std::copy(d_weight.begin(), d_weight.end(), out.weight.begin() + begin * width);
    if (head.tensor_region.divides_rows() || comm.rank() == 0)
      for (std::size_t i = 0; i < d_gain.size(); ++i) out.gain[i] += d_gain[i];
    if (settings.ranks > 1) return;
    auto const logits = head.logits(c, local_x);
    compute.synchronize();
    out.logits.assign(logits.span().begin(), logits.span().end());
  });
  return out;
}

passed run(options const& settings, numbers const& x = random(rows * width, 1)) {
  return run(settings, x, [](communicator comm) { return comm; });
}

void check_close(numbers const& actual, numbers const& expected, double tolerance) {
  REQUIRE(actual.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i)
    worst = std::max(worst, std::abs(actual[i] - expected[i]));
  CHECK(worst <= tolerance);
}

TEST_CASE(
    "head: the loss is the cross entropy of the logits, summed over labelled rows, and dx its "
    "gradient") {
  for (double const cap : {0.0, 1.5}) {
    options const settings{.softcap = cap};
    auto const single = run(settings);
    double loss = 0;
    std::int64_t correct = 0;
    auto const targets = labels();
    for (std::size_t r = 0; r < targets.size(); ++r) {
      if (targets[r] < 0) continue;
      auto const* const z = single.logits.data() + r * vocabulary;
      double sum = 0;
      for (index v = 0; v < vocabulary; ++v) sum += std::exp(z[v]);
      loss += std::log(sum) - z[targets[r]];
      correct += std::max_element(z, z + vocabulary) - z == targets[r] ? 1 : 0;
      if (cap > 0) CHECK(std::abs(z[0]) <= cap);
    }
    CHECK(single.sums.loss == doctest::Approx(loss).epsilon(1e-13));
    CHECK(single.sums.tokens == loss_tokens);
    CHECK(single.sums.correct == correct);
    double const step = 1e-6;
    for (index const element : {index{0}, index{6}, index{13}, rows * width - 1}) {
      auto raised = random(rows * width, 1), lowered = raised;
      raised[static_cast<std::size_t>(element)] += step;
      lowered[static_cast<std::size_t>(element)] -= step;
      double const slope =
          (run(settings, raised).sums.loss - run(settings, lowered).sums.loss) / (2 * step);
      CHECK(single.dx[static_cast<std::size_t>(element)] == doctest::Approx(slope).epsilon(1e-6));
    }
  }
}

TEST_CASE("head: a divided vocabulary gives one rank's loss, counts and gradients") {
  for (double const cap : {0.0, 1.5}) {
    auto const single = run({.softcap = cap});
    for (int const ranks : {2, 3, 4, 5, 6})
      for (bool const sequence : {false, true}) {
        if (sequence && rows % ranks != 0) continue;
        CAPTURE(ranks);
        CAPTURE(sequence);
        auto const actual = run({.ranks = ranks, .sequence = sequence, .softcap = cap});
        CHECK(actual.sums.loss == doctest::Approx(single.sums.loss).epsilon(1e-13));
        CHECK(actual.sums.tokens == single.sums.tokens);
        CHECK(actual.sums.correct == single.sums.correct);
        check_close(actual.dx, single.dx, 1e-13);
        check_close(actual.weight, single.weight, 1e-13);
        check_close(actual.gain, single.gain, 1e-13);
      }
  }
}

TEST_CASE("head: every broken exchange of unequal slices changes loss or gradients") {
  options const settings{.ranks = 4, .sequence = true};  // slices of 2, 2, 1 and 1 words
  auto const sound = run(settings);
  constexpr std::uint64_t calls = 3;  // rows, statistics, addends of gradients
  for (std::uint64_t call = 0; call <= calls; ++call)
    for (auto const kind : {parallel::fault_kind::drop, parallel::fault_kind::twice})
      for (int rank = 0; rank < settings.ranks; ++rank) {
        CAPTURE(call);
        CAPTURE(rank);
        auto const broken = run(settings, random(rows * width, 1), [&](communicator comm) {
          auto const rank_fault =
              comm.rank() == rank ? parallel::fault{call, kind} : parallel::fault{};
          return parallel::faulty(std::move(comm), rank_fault);
        });
        bool const is_same = broken.sums.loss == sound.sums.loss && broken.dx == sound.dx &&
                             broken.weight == sound.weight;
        CHECK(is_same == (call == calls));  // call number `calls` does not exist
      }
}

TEST_CASE("head: ranks with unequal slices cut rows into the same chunks") {
  using group = parallel::axis_group<parallel::axis::tensor, communicator>;
  auto const chunk = [](int rank, int ranks) {
    parallel::tensor::axis_position const position{rank, ranks};
    parallel::tensor::head<float, communicator> head;
    head.tensor_region = {group::planned(rank, ranks), false};
    head.logits_bytes = 4 * 128 * 8;  // 512 rows of 2 words, 1024 of one
    head.weight = keep_rows(position, parallel::parameter<float, 2>("weight", {6, 1}),
                            {position.part_of(6, "words")});
    return head.chunk_rows(1024, sizeof(float));
  };
  for (int rank = 0; rank < 4; ++rank) CHECK(chunk(rank, 4) == 512);
  CHECK(chunk(0, 1) == 128);
}

TEST_CASE("head: in bf16 training rounds logits, with the gradient in place; evaluation does not") {
  using parallel::bf16;
  constexpr index words = 640;  // so that logits are most of the memory
  auto const rounded = [](numbers const& values) {
    std::vector<bf16> out;
    for (double const v : values) out.emplace_back(static_cast<float>(v));
    return out;
  };
  auto x = rounded(random(rows * width, 1)), gain = rounded(random(width, 2)),
       weight = rounded(random(words * width, 3));
  std::vector<bf16> dx(x.size());
  std::vector<float> d_gain(gain.size()), d_weight(weight.size());
  auto const targets = labels();
  parallel::threads::run(1, [&](communicator& comm) {
    parallel::host::stream compute, exchanges;
    parallel::tensor::head<bf16, communicator> head;
    head.tensor_region = {{comm, exchanges}, false};
    head.norm_f.weight = {"gain", {width}};
    head.weight = {"weight", {words, width}};
    head.norm_f.weight.data = gain.data();
    head.norm_f.weight.gradient_data = d_gain.data();
    head.weight.data = weight.data();
    head.weight.gradient_data = d_weight.data();
    std::vector<std::byte> space(1U << 20U);
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::context<parallel::host::stream> c{.stream = compute, .memory = memory};
    matrix_view<bf16 const> const x_view(x.data(), {rows, width});
    parallel::vector_view<std::int32_t const> const target_view(targets.data(), {rows});
    parallel::train::statistics<double> training, evaluation;
    head.loss(c, target_view, loss_tokens, x_view, {dx.data(), {rows, width}}, training);
    CHECK(memory.peak() < 3 * rows * words);  // bytes: one logit or its gradient takes two
    head.loss(c, target_view, loss_tokens, x_view, {}, evaluation);

    // the same by separate operations
    typename parallel::norm<bf16>::saved state;
    auto const y = head.norm_f.forward(c, x_view, state);
    auto const exact = head.logits(c, x_view);
    auto logits = c.allocate<bf16, 2>({rows, words});
    auto losses = c.allocate<float, 1>({rows});
    auto correct = c.allocate<std::uint8_t, 1>({rows});
    double expected_training = 0, expected_evaluation = 0;
    auto const add = [&](double& sum, auto const& dlogits, auto const& logits_of_type) {
      parallel::ops::cross_entropy(compute, dlogits, losses, correct, logits_of_type, target_view);
      parallel::ops::sum(compute, &sum, losses.span());
    };
    parallel::ops::cast(compute, logits.span(), exact.span());
    add(expected_training, logits, logits);
    add(expected_evaluation, matrix_view<bf16>(), exact);
    std::vector<float> expected_weight(weight.size());
    parallel::ops::matmul(compute, matrix_view<float>(expected_weight.data(), {words, width}),
                          logits, y, {.transpose_a = true});
    compute.synchronize();
    CHECK(training.loss == expected_training);
    CHECK(evaluation.loss == expected_evaluation);
    CHECK(training.loss != evaluation.loss);
    CHECK(d_weight == expected_weight);
  });
}

TEST_CASE("head: chunks of logits make one gradient together, which overwrites or is added") {
  constexpr index row_count = 300;  // three chunks of 128, 128 and 44
  numbers const x = random(row_count * width, 1);
  std::vector<std::int32_t> targets;
  for (index i = 0; i < row_count; ++i)
    targets.push_back(static_cast<std::int32_t>(i % vocabulary));
  struct outcome {
    double loss = 0;
    numbers dx, weight;
  };
  double const initial_gradient = 5;  // in the weights' gradient
  auto const descend = [&](index logits_bytes, bool fresh, double cap) {
    outcome out{.dx = numbers(x.size()), .weight = numbers(vocabulary * width, initial_gradient)};
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
      CHECK((head.chunk_rows(row_count, sizeof(double)) < row_count) == (logits_bytes == 1));
      std::vector<std::byte> space(1U << 18U);
      parallel::arena memory({nullptr, space.data(), space.size()});
      parallel::context<parallel::host::stream> c{
          .stream = compute, .memory = memory, .overwrite_gradients = fresh};
      parallel::train::statistics<double> sums;
      head.loss(c, {targets.data(), {row_count}}, row_count, {x.data(), {row_count, width}},
                {out.dx.data(), {row_count, width}}, sums);
      compute.synchronize();
      out.loss = sums.loss;
    });
    return out;
  };
  for (double const cap : {0.0, 1.5}) {
    CAPTURE(cap);
    auto const whole = descend(index{1} << 29, true, cap);
    auto added = whole.weight;
    for (double& g : added) g += initial_gradient;
    for (bool const fresh : {true, false}) {
      CAPTURE(fresh);
      auto const chunked = descend(1, fresh, cap);
      CHECK(chunked.loss == doctest::Approx(whole.loss).epsilon(1e-13));
      check_close(chunked.dx, whole.dx, 1e-13);
      check_close(chunked.weight, fresh ? whole.weight : added, 1e-12);
    }
  }
}

TEST_CASE("head: logits exist for a bounded number of rows at once, in chunks about equal") {
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

TEST_CASE("head: chunks of MPT's logits keep the processors of a GPU busy") {
  struct chunking {
    index model, total_rows, chunk, waves;
  };
  for (auto const& [model, total_rows, chunk, waves] :
       {chunking{768, 16 * 2048, 5504, 6},     // 129 tiles for 132 processors
        chunking{1024, 16 * 2048, 4096, 8},    // 128; in chunks of 5504 rows 12 waves
        chunking{1536, 8 * 2048, 5504, 6},     // 258 in two waves
        chunking{2048, 8 * 2048, 4096, 8},     // twice 128
        chunking{4096, 2 * 2048, 4096, 4}}) {  // one chunk
    parallel::tensor::head<double, communicator> head;
    head.weight = {"weight", {50368, model}};
    CHECK(head.chunk_rows(total_rows, 2) == chunk);
    index const tiles = chunk / 128 * (model / 256);
    CHECK((total_rows + chunk - 1) / chunk * ((tiles + 131) / 132) == waves);
  }
}

}  // namespace head_test
