// Mistakes in a user's model are refused before the first step with the name of the parameter, unit
// or part; a model without mistakes trains.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/layer/embedding.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/loss/cross_entropy.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/tensor/layers.hpp>
#include <parallel/tensor/slices.hpp>
#include <parallel/train/stepper.hpp>

#include <parallel/layer/activation.hpp>

#include "parallel/support/files.hpp"

namespace model_check_test {
namespace {

using parallel::index;
using parallel::matrix_view;
namespace tensor = parallel::tensor;
namespace train = parallel::train;
namespace zero = parallel::zero;
using communicator = parallel::threads::communicator;
using linear = parallel::linear<float>;
using region = tensor::region<communicator>;
using square = parallel::activation<float>;
using feed_forward = parallel::feed_forward<square>;
using gather = tensor::gather<float, communicator>;
using reduce = tensor::reduce<float, communicator>;
using whole_branch = parallel::residual<parallel::sequential<parallel::norm<float>, feed_forward>>;
using sliced_branch = parallel::residual<
    parallel::sequential<parallel::norm<float>, gather, tensor::sliced<feed_forward>, reduce>>;

/// A norm whose backward_weight reads its values.
struct reading_norm : parallel::norm<float> {
  template <class Stream>
  void backward_weight(parallel::context<Stream>& c, saved const& activations) const {
    auto const copy = c.template allocate<float, 1>({weight.size()});
    parallel::ops::copy(c.stream, copy.span(), weight.value().span());
    parallel::norm<float>::backward_weight(c, activations);
  }
};
using reading_branch = parallel::residual<
    parallel::sequential<reading_norm, gather, tensor::sliced<feed_forward>, reduce>>;

/// A norm that does not say that its results are the same where ranks divide the rows of sequences.
struct undeclared_norm : parallel::norm<float> {
  static constexpr bool takes_divided_sequences = false;
};
using undeclared_branch = parallel::residual<
    parallel::sequential<undeclared_norm, gather, tensor::sliced<feed_forward>, reduce>>;

/// The norm at the beginning of a branch.
template <class Branch>
struct norm_in {
  using type = parallel::norm<float>;
};
template <class Norm, class... Rest>
struct norm_in<parallel::residual<parallel::sequential<Norm, Rest...>>> {
  using type = Norm;
};

constexpr index vocabulary = 8, features = 8, hidden = 16, blocks = 2, rows = 12;

struct batch_view {
  parallel::vector_view<std::int32_t const> ids, labels;
};

/// The mistakes of a model; none by default.
struct mistakes {
  bool unit_missing = false;       // no unit holds block 1
  bool parameter_missing = false;  // the exit visits its bias only
  bool slice_only = false;         // the exit reads some rows of a parameter that it never visits
  index part_of_second = 1;        // the part that visit_units names for block 1
  bool accumulates = false;        // the exit adds, but declares replaces_gradient
  std::string name_of_exit = "exit.weight";
  std::string name_of_unit = "exit";
  bool too_many_parts = false;
  bool copies_forgotten = false;        // norms do not declare that tensor ranks hold copies
  bool partial_forgotten = false;       // norms with divided rows do not declare partial gradients
  bool values_in_entry = false;         // the entry's backward pass reads the table
  bool whole_entry = false;             // the entry gives all rows instead of the rank's share
  bool overwrites = false;              // the exit overwrites a gradient to which it must add
  bool gradient_forgotten = false;      // the exit does not compute its bias gradient
  bool all_count = false;               // every tensor rank adds the loss of the same rows
  bool has_parts_of_sequences = false;  // the rank holds half of each sequence, as with context
  std::string tied_name = "";           // the name of the parameter tied to the table; empty: none
  bool share_forgotten = false;         // the model does not declare its share of rows
  bool no_count = false;                // no rank counts tokens
  bool first_counts_alone =
      false;                      // only one rank counts, though every tensor rank has its own rows
  bool each_counts_half = false;  // each rank counts half of the rows that all ranks have
  bool null_use = false;
  bool no_dx = false;       // the exit does not write its input gradient
  bool adds_to_dx = false;  // the exit adds to uninitialised memory
};

/// A model of `Block`s on slices of `ranks`.
template <class Block>
struct model {
  using element = float;
  using microbatch = batch_view;
  using block = Block;

  mistakes wrong;
  region ranks;
  index sequence_length = 0;
  parallel::embedding<float> tokens;
  std::deque<Block> column;
  linear exit;
  parallel::parameter<float, 2> unshown{"unshown", {4, features}};
  parallel::parameter<float, 2> alias{wrong.tied_name, {vocabulary, features}};

  model(region tensor_region, mistakes chosen) : wrong(std::move(chosen)), ranks(tensor_region) {
    parallel::initializer const start = parallel::normal_init{0.2F};
    tensor::axis_position const own_position{tensor_region.rank(), tensor_region.size()};
    parallel::parameter_replication const outside = tensor_region.replication_outside();
    tokens.weight = {"tokens", {vocabulary, features}, start};
    tokens.weight.replicated(outside);
    for (index i = 0; i < blocks; ++i) {
      auto const name = parallel::concat("block.", i, ".");
      auto const own_hidden = own_position.part_of(hidden, "hidden");
      typename norm_in<Block>::type norm;
      norm.weight = {name + "norm", {features}, parallel::constant_init{1.0F}};
      if (!wrong.copies_forgotten)
        norm.weight.replicated(wrong.partial_forgotten
                                   ? parallel::parameter_replication{tensor_region.size(), false}
                                   : outside);
      feed_forward wide;
      wide.up = tensor::keep_outputs(
          own_position, linear{{name + "up", {hidden, features}, start}, {}}, {own_hidden});
      wide.down = tensor::keep_inputs(
          own_position, linear{{name + "down", {features, hidden}, start}, {}}, own_hidden);
      if constexpr (!std::is_same_v<Block, whole_branch>)
        column.emplace_back(parallel::sequential(norm, gather{tensor_region},
                                                 tensor::sliced(std::move(wide)),
                                                 reduce{tensor_region, {}}));
      else
        column.emplace_back(parallel::sequential(norm, std::move(wide)));
    }
    exit.weight = {wrong.name_of_exit, {vocabulary, features}, start};
    exit.bias = {"exit.bias", {vocabulary}};
    exit.weight.replicated(outside);
    exit.bias.replicated(outside);
  }

  std::size_t num_blocks() const { return blocks; }
  Block const& at(std::size_t i) const { return column[i]; }
  index rows(batch_view const& b) const { return ranks.rows_outside(b.ids.size()); }
  index sequence(batch_view const& b) const {
    return sequence_length == 0 ? b.ids.size() : sequence_length;
  }
  parallel::row_share share(batch_view const& b) const {
    if (wrong.has_parts_of_sequences) return {.whole = 2 * b.ids.size(), .starts = {0}, .runs = 1};
    return {.first_row = wrong.share_forgotten ? 0 : ranks.first_row_outside(b.ids.size())};
  }
  index width() const { return features; }

  /// The exit as its unit sees it.
  struct shown_exit {
    linear& layer;
    bool bias_only;
    void visit_parameters(auto&& visit) {
      if (!bias_only) return layer.visit_parameters(visit);
      visit(layer.bias);
    }
  };

  void visit_units(auto&& visit) {
    using uses = std::vector<parallel::parameter_base<float>*>;
    using parts = std::vector<train::part>;
    if (wrong.null_use)
      visit(std::string("tokens"), tokens, parts{train::embed, blocks}, uses{nullptr});
    else if (wrong.tied_name.empty())
      visit(std::string("tokens"), tokens, parts{train::embed}, uses{});
    else
      visit(std::string("tokens"), tokens, parts{train::embed, blocks}, uses{&alias});
    visit(std::string("block.0"), column[0], parts{0}, uses{});
    if (!wrong.unit_missing)
      visit(std::string("block.1"), column[1], parts{wrong.part_of_second}, uses{});
    shown_exit shown{exit, wrong.parameter_missing};
    visit(wrong.name_of_unit, shown, wrong.too_many_parts ? parts{blocks, 0} : parts{blocks},
          uses{});
  }

  auto embed(auto& c, batch_view const& b) const {
    auto const embedded = tokens.forward(c, b.ids);
    return ranks.divides_rows() && !wrong.whole_entry
               ? embedded.slice(ranks.rank() * rows(b), (ranks.rank() + 1) * rows(b))
               : embedded;
  }
  void enter_backward(auto& c, batch_view const& b, matrix_view<float const> dy) const {
    if (wrong.values_in_entry) {
      auto const copy = c.template allocate<float, 2>({vocabulary, features});
      parallel::ops::copy(c.stream, copy.span(), tokens.weight.value().span());
    }
    auto const own_gradient =
        ranks.divides_rows() ? b.ids.slice(ranks.rank() * rows(b), (ranks.rank() + 1) * rows(b))
                             : b.ids;
    tokens.backward_weight(c, own_gradient, dy);
  }
  void head_loss(auto& c, batch_view const& b, matrix_view<float const> x, matrix_view<float> dx,
                 train::statistics<double>& sums) const {
    index const first = ranks.divides_rows() ? ranks.rank() * rows(b) : 0;
    if (wrong.slice_only) {
      auto const copy = c.template allocate<float, 2>({2, features});
      parallel::ops::copy(c.stream, copy.span(), unshown.value().slice(1, 3).span());
    }
    linear::saved activations;
    auto const logits = exit.forward(c, x, activations);
    auto const losses = c.template allocate<float, 1>({x.extent(0)});
    auto const correct = c.template allocate<std::uint8_t, 1>({x.extent(0)});
    parallel::ops::cross_entropy(c.stream, logits, losses, correct,
                                 matrix_view<float const>(logits),
                                 b.labels.slice(first, first + x.extent(0)));
    if ((ranks.divides_rows() && !wrong.first_counts_alone) || ranks.rank() == 0 ||
        wrong.all_count) {
      index const half = ranks.rank() * model_check_test::rows / 2;
      auto const counted =
          wrong.each_counts_half ? losses.slice(half, half + model_check_test::rows / 2) : losses;
      parallel::ops::sum(c.stream, &sums.loss, std::span<float const>(counted.span()));
      if (!wrong.no_count) sums.tokens += counted.extent(0);
    }
    if (dx.extent(0) == 0) return;
    auto const gradient = exit.backward_input(c, logits, activations);
    if (wrong.accumulates || wrong.overwrites || wrong.gradient_forgotten)
      parallel::ops::matmul(c.stream, exit.weight.gradient(), matrix_view<float const>(logits), x,
                            {.transpose_a = true,
                             .accumulate = !wrong.overwrites &&
                                           !(wrong.gradient_forgotten && c.overwrite_gradients)});
    else
      exit.backward_weight(c, activations);
    if (wrong.no_dx) return;
    if (wrong.adds_to_dx)
      parallel::ops::add(c.stream, dx.span(), std::span<float const>(gradient.span()));
    else
      parallel::ops::copy(c.stream, dx.span(), std::span<float const>(gradient.span()));
  }
};

struct run_options {
  bool evaluates = false;  // evaluates instead of training
  int data = 1;
  int tensor = 1;
  bool sequence = false;  // rows between regions are divided over tensor ranks
  zero::level level = zero::level::none;
  bool initialised = true;
  bool seed_by_rank = false;
  double factor = 1.0;
  bool rate_by_rank = false;  // the learning rate differs by rank
  bool clip_by_rank = false;
  bool dropout_by_rank = false;  // the seed of dropout differs by rank
  bool data_by_rank = false;     // the data differ by world rank
  std::size_t places = 1;        // number of positions given for one microbatch
  train::clipping clip = {train::clipping_kind::norm, 1e3};
  int stages_per_rank = 1;
  bool trained = true;
  bool two_steppers = false;  // two steppers use one model
  bool no_data = false;       // the views of parameters are null
  bool small_arena = false;
  index sequence_length = 0;  // that the model declares; 0: all rows are one sequence
};

/// Makes one step of a model with mistakes; returns the message of the refusal, or an empty string.
template <class Block = sliced_branch>
std::string refusal(mistakes const& wrong, run_options const& options = {}) {
  auto shape = parallel::training_layout{}.with_degree<parallel::axis::tensor>(options.tensor);
  shape = options.level == zero::level::none
              ? shape.with_degree<parallel::axis::replicate>(options.data)
              : shape.with_degree<parallel::axis::shard>(options.data);
  return test::message_of([&] {
    parallel::threads::run(shape.ranks(), [&](communicator& world) {
      parallel::host::device device;
      parallel::host::stream compute, exchanges, exchanges_of_group;
      train::process_groups groups(world.split(0), shape, options.level);
      model<Block> net({.group = {groups.tensor, exchanges_of_group}, .sequence = options.sequence},
                       wrong);
      net.sequence_length = options.sequence_length;
      double const other = world.rank() == 1 ? 0.5 : 0.25;
      parallel::decoupled_adamw const rule{.learning_rate = options.rate_by_rank ? other : 1e-3};
      auto clip = options.clip;
      if (options.clip_by_rank) clip.threshold = other;
      train::stepper step(
          net, device, groups,
          train::optimizer_groups<parallel::decoupled_adamw>(
              {rule},
              [&](auto const&) { return parallel::segment_key{.trainable = options.trained}; }),
          {.level = options.level,
           .bucket_bytes = 1,
           .clip = clip,
           .pipeline = {.stages_per_rank = options.stages_per_rank}});
      if (options.initialised)
        step.initialise(options.seed_by_rank ? static_cast<std::uint64_t>(world.rank()) : 1);
      std::vector<std::int32_t> ids(rows), labels(rows);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        ids[i] = static_cast<std::int32_t>(i % vocabulary);
        labels[i] = static_cast<std::int32_t>((i + 1) % vocabulary);
      }
      if (options.two_steppers)
        train::stepper(net, device, groups, rule, {.level = options.level}).initialise(1);
      batch_view const batch = options.no_data
                                   ? batch_view{{nullptr, {rows}}, {nullptr, {rows}}}
                                   : batch_view{{ids.data(), {rows}}, {labels.data(), {rows}}};
      std::vector<index> const first(options.places, options.data_by_rank ? world.rank() : 0);
      parallel::position const position{
          .seed = options.dropout_by_rank ? static_cast<std::uint64_t>(world.rank()) : 0};
      auto const storage = device.template allocate<std::byte>(
          step.plan_activations(std::span(&batch, 1)) / (options.small_arena ? 2 : 1));
      parallel::arena memory(storage);
      train::statistics_sum<double> sums;
      if (options.evaluates)
        return step.add_evaluation(compute, memory, std::span(&batch, 1), sums);
      static_cast<void>(
          step.step(compute, exchanges, memory, {{&batch, 1}, first, position, options.factor}));
    });
  });
}

std::vector<run_options> const layouts = {
    {},
    {.data = 2},
    {.data = 2, .level = zero::level::parameters},
    {.tensor = 2},
    {.data = 2, .tensor = 2, .sequence = true, .level = zero::level::gradients}};

TEST_CASE("model check: a model without mistakes trains in every layout") {
  for (auto const& options : layouts) {
    CAPTURE(options.tensor);
    CHECK(refusal({}, options).empty());
  }
  CHECK(refusal<whole_branch>({}, {.data = 2, .level = zero::level::parameters}).empty());
}

TEST_CASE(
    "model check: a unit or parameter that is not visited is named with the part that uses it") {
  for (auto const& options : layouts) {
    CHECK(test::contains(refusal({.unit_missing = true}, options),
                         "block 1 (part 1) computes with a parameter of 8 elements that no unit "
                         "holds; show it in its layer's visit_parameters and the layer in the "
                         "model's visit_units, which show for this part nothing"));
    CHECK(test::contains(refusal({.parameter_missing = true}, options),
                         "the exit (part 2) computes with a parameter of 64 elements that no unit "
                         "holds; show it in its layer's visit_parameters and the layer in the "
                         "model's visit_units, which show for this part unit \"exit\": exit.bias"));
    CHECK(test::contains(refusal({.slice_only = true}, options),
                         "the exit (part 2) computes with a parameter of 16 elements that no unit "
                         "holds"));
  }
}

TEST_CASE("model check: an evaluation before the first step is checked too") {
  for (auto options : layouts) {
    options.evaluates = true;
    CHECK(refusal({}, options).empty());
    CHECK(test::contains(refusal({.parameter_missing = true}, options),
                         "the exit (part 2) computes with a parameter of 64 elements that no unit "
                         "holds"));
    options.initialised = false;
    CHECK(test::contains(refusal({}, options), "the model's parameters have no values yet"));
  }
}

TEST_CASE("model check: a unit that names a part other than the one that uses it is refused") {
  for (auto const& options : layouts) {
    CHECK(test::contains(refusal({.part_of_second = 0}, options),
                         "unit \"block.1\": parameter \"block.1.norm\" is used by block 1 (part "
                         "1), but visit_units says by block 0 (part 0); give the unit the part "
                         "that computes with it"));
    CHECK(test::contains(refusal({.part_of_second = 2}, options),
                         "is used by block 1 (part 1), but visit_units says by the exit (part 2)"));
  }
  CHECK(test::contains(refusal({.part_of_second = 3}),
                       "unit \"block.1\": visit_units names part 3, the model has -1 (entry) to 2 "
                       "(exit)"));
  CHECK(test::contains(
      refusal({.too_many_parts = true}),
      "unit \"exit\": visit_units gives part 0 after part 2 for a layer that both compute with"));
}

TEST_CASE("model check: a layer that adds to a gradient that it declares to replace is refused") {
  CHECK(
      test::contains(refusal({.accumulates = true}),
                     "unit \"exit\": parameter \"exit.weight\" declares replaces_gradient, but "
                     "its layer adds to the gradient where context::overwrites(parameter) holds"));
}

TEST_CASE(
    "model check: a layer that overwrites a gradient instead of adding, or computes none, is "
    "refused") {
  CHECK(test::contains(refusal({.overwrites = true}),
                       "unit \"exit\": parameter \"exit.weight\": its layer overwrites the "
                       "gradient, to which a microbatch after a step's first"));
  CHECK(
      test::contains(refusal({.gradient_forgotten = true}),
                     "unit \"exit\": parameter \"exit.bias\" is trained, but the backward pass "
                     "of the exit (part 2) never writes its gradient; add to gradient() there (in "
                     "ops::custom: updates(view)), or freeze the parameter"));
}

TEST_CASE(
    "model check: a loss that every tensor rank counts is refused, as is one that no rank counts") {
  CHECK(test::contains(refusal({.all_count = true}, {.tensor = 2}),
                       "the exit (part 2): head_loss adds its loss and tokens on all 2 tensor "
                       "ranks, which see the same rows, so each counts 2 times; add to sums where "
                       "the region's rank() is 0 alone"));
  CHECK(refusal({.all_count = true}, {.tensor = 2, .sequence = true})
            .empty());  // each rank counts other rows
  CHECK(refusal({.all_count = true, .each_counts_half = true}, {.tensor = 2}).empty());
  for (auto const& options : layouts)
    CHECK(test::contains(refusal({.no_count = true}, options),
                         "the first step has counted no tokens"));
}

TEST_CASE("model check: rows that are gathered must also be divided by the model") {
  CHECK(test::contains(refusal({.share_forgotten = true}, {.tensor = 2, .sequence = true}),
                       "block 0 (part 0) gathers rows of the tensor ranks, as a region does with "
                       ".sequence = true, but by the model's share(batch) all of them begin with "
                       "the same one"));
  CHECK(refusal({.share_forgotten = true}, {.tensor = 2}).empty());
}

TEST_CASE(
    "model check: with sequence parallelism, a layer that does not declare that it takes divided "
    "sequences is refused") {
  CHECK(refusal<undeclared_branch>({}, {.tensor = 2}).empty());
  CHECK(test::contains(
      refusal<undeclared_branch>({}, {.tensor = 2, .sequence = true}),
      "undeclared_norm of the model's blocks does not say that its results are the same there; "
      "where no row of its results depends on another row of its input, declare in it static "
      "constexpr bool takes_divided_sequences = true"));
}

TEST_CASE(
    "model check: with context parallelism, a layer that does not declare that it takes divided "
    "sequences is refused") {
  CHECK(refusal({.has_parts_of_sequences = true}).empty());
  CHECK(test::contains(
      refusal<undeclared_branch>({.has_parts_of_sequences = true}),
      "with context parallelism a rank holds some rows of each sequence, and layer "));
}

TEST_CASE("model check: rows that the model's sequence does not divide are refused") {
  CHECK(refusal({}, {.sequence_length = 4}).empty());
  for (bool const evaluates : {false, true})
    CHECK(test::contains(refusal({}, {.evaluates = evaluates, .sequence_length = 8}),
                         "a microbatch has 12 rows, of which the model's sequence(batch) says that "
                         "8 are a sequence; give whole sequences"));
}

TEST_CASE("model check: ranks with different initial values get an error") {
  CHECK(
      test::contains(refusal({}, {.data = 2, .seed_by_rank = true}),
                     "ranks begin different steps: rank 0 begins step 0 of 1 microbatch with "
                     "learning rate factor 1, with the initial values of seed 0; rank 1 begins "
                     "step 0 of 1 microbatch with learning rate factor 1, with the initial values "
                     "of seed 1; initialise by one seed on all ranks"));
}

TEST_CASE("model check: ranks that create different steppers learn the first difference") {
  for (auto options : layouts) {
    if (options.data * options.tensor == 1) continue;
    options.clip_by_rank = true;
    CHECK(test::contains(refusal({}, options), "ranks make different steppers: rank"));
    CHECK(test::contains(refusal({}, options), "rank 1 has stepper_options::clip norm 0.5"));
    options.clip_by_rank = false;
    options.rate_by_rank = true;
    CHECK(test::contains(refusal({}, options),
                         "rank 1 has optimizer 0 with learning_rate 0.5; give"));
  }
}

TEST_CASE("model check: impossible options are refused by name") {
  using enum train::clipping_kind;
  for (auto const kind : {norm, value, adaptive})
    for (double const threshold : {-1.0, 0.0, std::nan("")})
      CHECK(test::contains(
          refusal({}, {.data = 2, .clip = {kind, threshold}}),
          parallel::concat("stepper_options::clip: the threshold of ", train::to_string(kind),
                           " is ", threshold, "; it must be above 0")));
  CHECK(refusal({}, {.clip = {none, -1}}).empty());
  CHECK(test::contains(refusal({}, {.stages_per_rank = 2}),
                       "pipeline_options::stages_per_rank is 2, but the schedule 1f1b has 1"));
  CHECK(test::contains(refusal({}, {.trained = false}), "every parameter of the model is frozen"));
}

TEST_CASE("model check: two steppers of one model are refused, as is a parameter without data") {
  for (auto options : layouts) {
    options.two_steppers = true;
    if (options.level != zero::level::parameters)
      CHECK(test::contains(
          refusal({}, options),
          "unit \"tokens\": parameter \"tokens\" is not where this stepper has "
          "put it: it was moved, or another one, or train::weights, was made of the same model"));
  }
}

TEST_CASE("model check: the error for a small arena names the size that it needs") {
  CHECK(test::contains(refusal({}, {.small_arena = true}),
                       "give it the size that plan_activations returns for these microbatches"));
}

TEST_CASE(
    "model check: different random seeds, or other data within a model's ranks, are refused") {
  for (auto options : layouts) {
    options.dropout_by_rank = true;
    if (options.data * options.tensor > 1)
      CHECK(test::contains(refusal({}, options),
                           "rank 1 begins step 0 of 1 microbatch with learning "
                           "rate factor 1, at position.seed 1; "));
    options.dropout_by_rank = false;
    options.data_by_rank = true;
    if (options.tensor > 1)
      CHECK(test::contains(refusal({}, options), "from sequence 1 on (fingerprint "));
    else
      CHECK(refusal({}, options).empty());
  }
}

TEST_CASE("model check: a missing position of a microbatch is refused before it is read") {
  for (std::size_t const places : {0U, 2U})
    CHECK(test::contains(
        refusal({}, {.places = places}),
        parallel::concat("a step of 1 microbatches is given ", places, " first_sequences")));
}

TEST_CASE("model check: a factor that is negative or NaN is refused as such") {
  CHECK(test::contains(
      refusal({}, {.data = 2, .factor = std::nan("")}),
      "a step's learning rate factor is nan; it must be a finite number, 0 or more"));
  CHECK(test::contains(refusal({}, {.data = 2, .factor = -1}),
                       "a step's learning rate factor is -1; it must be a finite number, 0"));
}

TEST_CASE("model check: parameters or units with equal names, or none, are refused") {
  CHECK(
      test::contains(refusal({.name_of_exit = "tokens"}),
                     "unit \"exit\": parameter \"tokens\" has the name of one of unit \"tokens\""));
  CHECK(test::contains(refusal({.name_of_exit = ""}),
                       "unit \"exit\": a parameter of 64 elements has no name"));
  CHECK(test::contains(refusal({.name_of_unit = "tokens"}),
                       "visit_units shows two units named \"tokens\""));
}

TEST_CASE("model check: tied parameters with different names are refused") {
  CHECK(test::contains(refusal({.tied_name = "output"}),
                       "unit \"tokens\": parameter \"tokens\" is tied to one named \"output\"; "
                       "give both one name"));
}

TEST_CASE("model check: a step before values are initialised is refused") {
  for (auto const& options : layouts) {
    auto uninitialised = options;
    uninitialised.initialised = false;
    CHECK(test::contains(refusal({}, uninitialised), "the model's parameters have no values yet"));
  }
}

TEST_CASE("model check: slices without gather and reduce are refused") {
  CHECK(test::contains(refusal<whole_branch>({}, {.tensor = 2}),
                       "block 0 (part 0): its result comes of this rank's slice of parameter "
                       "\"block.0.down\" and is not summed over the 2 tensor ranks; put "
                       "tensor::reduce after the layer"));
}

TEST_CASE(
    "model check: a shared parameter must declare its copies, and its gradients as partial sums") {
  CHECK(test::contains(refusal({.copies_forgotten = true}, {.tensor = 2}),
                       "unit \"block.0\": parameter \"block.0.norm\" is whole on each of 2 tensor "
                       "ranks but is declared to be on 1; say so with "
                       "replicated(region.replication_outside())"));
  CHECK(refusal({.partial_forgotten = true}, {.tensor = 2}).empty());  // rows are not divided
  CHECK(
      test::contains(refusal({.partial_forgotten = true}, {.tensor = 2, .sequence = true}),
                     "parameter \"block.1.norm\" is the same on 2 tensor ranks, but its gradient "
                     "is not, since each sees other rows; declare it with replicated({.ranks = 2, "
                     ".partial = true}), or sum the gradient first"));
}

TEST_CASE(
    "model check: where each tensor rank has its own rows, counting on one rank only is refused") {
  CHECK(test::contains(
      refusal({.first_counts_alone = true}, {.tensor = 2, .sequence = true}),
      "rank 0 begins step 0 of 1 microbatch with learning rate factor 1, and its head_loss counts "
      "its own rows; rank 1 begins step 0 of 1 microbatch with learning rate factor 1, and its "
      "head_loss counts nothing; where tensor ranks have rows of their own"));
  CHECK(refusal({.first_counts_alone = true}, {.tensor = 2}).empty());
}

TEST_CASE("model check: a tied use that is null is refused") {
  CHECK(test::contains(refusal({.null_use = true}),
                       "unit \"tokens\": visit_units gives a null pointer as a tied use"));
}

TEST_CASE(
    "model check: a part that gives another number of rows than declared is refused by name") {
  auto const found = refusal({.whole_entry = true}, {.tensor = 2, .sequence = true});
  CHECK(
      found ==
      "the entry (part -1) gives activations of 12 rows and 8 columns, but the model's rows(batch) "
      "and width() say 6 and 8; where a tensor axis divides rows, its layers must have the model's "
      "region");
}

TEST_CASE(
    "model check: an exit that does not write its input gradient, or adds to it, is refused") {
  for (auto const& options : layouts) {
    CHECK(test::contains(refusal({.no_dx = true}, options),
                         "the exit (part 2): head_loss never writes dx; write the gradient"));
    CHECK(test::contains(refusal({.adds_to_dx = true}, options),
                         "the exit (part 2): head_loss reads dx before it has written there"));
  }
}

TEST_CASE("model check: a backward_weight that reads values, which may be resharded, is refused") {
  for (auto const& options : layouts)
    CHECK(test::contains(refusal<reading_branch>({}, options),
                         "unit \"block.1\": parameter \"block.1.norm\" is read by backward_weight "
                         "of block 1 (part 1), where values need not be there; keep what it needs "
                         "of them in forward or backward_input"));
}

TEST_CASE("model check: an entry whose backward pass reads values is refused") {
  for (auto const& options : layouts)
    CHECK(test::contains(refusal({.values_in_entry = true}, options),
                         "unit \"tokens\": parameter \"tokens\" is read by enter_backward of "
                         "the entry (part -1), where values need not be there"));
}

}  // namespace
}  // namespace model_check_test
