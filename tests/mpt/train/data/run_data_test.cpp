// The data of a run, text or examples, behind one interface. In runs on examples the loss does not
// depend on padding or packing, nor do the parameters depend on the layout.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include <mpt/train/data/configured_data.hpp>
#include <mpt/train/read_run_parts.hpp>

#include "mpt/train/tiny_run.hpp"

namespace run_data_test {
namespace {

using namespace tiny_run;
using parallel::index;

/// Examples of 4 ids, of which two fill a row; if one saw the other in a packed row, its loss would
/// change.
mpt::run_examples make_examples(int count) {
  mpt::example_set set;
  for (int i = 0; i < count; ++i) {
    std::int32_t const a = i % vocabulary;
    std::int32_t const b = (a + 1 + i % 2) % vocabulary;
    set.examples.push_back({{a, b, a, b}, {mpt::finetune::no_label, a, b, -100}});
  }
  auto const shared_set = std::make_shared<mpt::example_set const>(set);
  return {shared_set, {shared_set}};
}

train_config config(run_files const& files, double batches) {
  auto c = files.config(batches);
  c.model.resid_pdrop = 0;
  c.model.attn.alibi = true;
  c.model.learned_pos_emb = false;
  c.data.train_loader.streams.clear();
  c.data.train_loader.finetuning = mpt::finetuning_config{};
  c.data.train_loader.shuffle = false;
  c.data.eval_loaders = {c.data.train_loader};
  return c;
}

mpt::run_summary run(train_config const& config, mpt::run_examples const& examples, int ranks) {
  auto const plan = mpt::plan_run<float>(config, ranks);
  auto const parts = mpt::read_run_parts(config, examples);
  mpt::run_summary out;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    bool const is_primary = comm.rank() == 0;
    parallel::any_communicator any(std::move(comm));
    parallel::host::device device;
    auto const summary = mpt::run_training<float>(config, any, device, plan, parts);
    if (is_primary) out = summary;
  });
  return out;
}

TEST_CASE("run data: text and examples have one interface") {
  run_files const files;
  auto const text_config = files.config(3);
  mpt::configured_batches text(text_config.model, text_config.data, text_config.execution, nullptr,
                               0, 1);
  CHECK(text.batches_per_epoch() == 3);
  CHECK(text.set().samples == 20);
  CHECK(text.at(0).count() == 6);
  CHECK(text.tokens() == 6 * length);
  CHECK(text.share().size() == 6);
  auto const c = config(files, 3);
  mpt::configured_batches examples(c.model, c.data, c.execution, make_examples(20).train, 0, 1);
  CHECK(examples.batches_per_epoch() == 3);
  CHECK(examples.set().samples == 20);
  auto reordered = *make_examples(20).train;
  std::ranges::reverse(reordered.examples);
  auto const reversed = std::make_shared<mpt::example_set const>(reordered);
  CHECK(mpt::configured_batches(c.model, c.data, c.execution, reversed, 0, 1).set().checksum !=
        examples.set().checksum);
  CHECK(mpt::configured_batches(c.model, c.data, c.execution, make_examples(20).train, 0, 1)
            .set()
            .checksum == examples.set().checksum);
  CHECK(examples.at(0).count() == 6);
  CHECK(examples.tokens() == 6 * 4);
  CHECK(examples.waited_seconds() == 0);
  CHECK_THROWS_AS(mpt::configured_batches(c.model, c.data, c.execution, nullptr, 0, 1),
                  parallel::error);
  mpt::configured_set const set(c.model, c.data.eval_loaders[0], c.evaluation, c.execution,
                                make_examples(7).train);
  for (int time = 0; time < 2; ++time) {
    auto const next = set.batches(0, 1);
    index rows = 0;
    while (auto const batch = next()) rows += batch->count();
    CHECK(rows == 7);
  }
}

TEST_CASE("run data: packed and padded rows of the same examples give the same losses") {
  run_files const files;
  auto const examples = make_examples(24);
  auto padded = config(files, 4);
  padded.data.global_train_batch_size = 6;
  padded.model.attn.attn_uses_sequence_id = true;
  padded.evaluation.eval_first = true;
  padded.output.metrics_file = files.folder / "padded.jsonl";
  CHECK(run(padded, examples, 1).tokens == 4 * 24);
  auto packed = padded;
  packed.data.global_train_batch_size = 3;  // rows of two examples
  packed.data.train_loader.finetuning->packing = mpt::packing_config{2.0, {}};
  packed.data.eval_loaders[0].finetuning->packing = packed.data.train_loader.finetuning->packing;
  packed.output.metrics_file = files.folder / "packed.jsonl";
  CHECK(run(packed, examples, 1).tokens == 4 * 24);
  auto const one = records(files.folder / "padded.jsonl");
  auto const other = records(files.folder / "packed.jsonl");
  REQUIRE(one.size() == 5);
  REQUIRE(other.size() == 5);
  CHECK(one[0].at("metrics/eval/LanguageCrossEntropy").get<double>() ==
        doctest::Approx(other[0].at("metrics/eval/LanguageCrossEntropy").get<double>())
            .epsilon(1e-6));
  CHECK(one[0].at("metrics/eval/tokens") == 48);
  for (std::size_t i = 1; i < 5; ++i)
    for (char const* const key : {"loss/train/total", "l2_norm/grad/global"}) {
      CAPTURE(i);
      CHECK(one[i].at(key).get<double>() ==
            doctest::Approx(other[i].at(key).get<double>()).epsilon(2e-5));
    }
  CHECK(one[1].at("throughput/padding_share").get<double>() == doctest::Approx(0.5));
  CHECK(other[1].at("throughput/padding_share").get<double>() == doctest::Approx(0));
  packed.model.attn.attn_uses_sequence_id = false;  // one example sees the other
  packed.output.metrics_file = files.folder / "seen.jsonl";
  run(packed, examples, 1);
  CHECK(records(files.folder / "seen.jsonl")[1].at("loss/train/total").get<double>() !=
        doctest::Approx(one[1].at("loss/train/total").get<double>()).epsilon(1e-4));
}

TEST_CASE("run data: trimmed padding changes no loss in any layout") {
  run_files const files;
  auto const examples = make_examples(24);
  auto padded = config(files, 4);
  padded.data.global_train_batch_size = 6;
  padded.data.train_loader.max_seq_len = 24;
  padded.data.eval_loaders.clear();
  padded.output.metrics_file = files.folder / "padded.jsonl";
  run(padded, examples, 1);
  auto const one = records(files.folder / "padded.jsonl");
  CHECK(one[1].at("throughput/padding_share").get<double>() == doctest::Approx(1 - 4 / 24.0));
  auto trimmed = padded;
  trimmed.data.train_loader.finetuning->trimming = mpt::finetune::row_trimming::to_multiple;
  auto context = trimmed;
  context.execution.parallelism.context = 2;
  auto tensor = trimmed;
  tensor.execution.parallelism.tensor = 2;
  tensor.execution.parallelism.sequence_parallel = true;
  for (auto* const c : {&trimmed, &context, &tensor}) {
    c->output.metrics_file = files.folder / "trimmed.jsonl";
    auto const ranks = c == &trimmed ? 1 : 2;
    run(*c, examples, ranks);
    auto const other = records(files.folder / "trimmed.jsonl");
    REQUIRE(other.size() == one.size());
    for (std::size_t i = 0; i < one.size(); ++i)
      for (char const* const key : {"loss/train/total", "l2_norm/grad/global"}) {
        CAPTURE(i);
        CHECK(one[i].at(key).get<double>() ==
              doctest::Approx(other[i].at(key).get<double>()).epsilon(2e-5));
      }
    // the first batch has rows of 24, the second of 8
    CHECK(other[1].at("throughput/padding_share").get<double>() == doctest::Approx(1 - 8 / 32.0));
    fs::remove(files.folder / "trimmed.jsonl");
  }
}

TEST_CASE("run data: the checkpoint with the least evaluation loss is kept and linked as `best`") {
  run_files const files;
  auto c = config(files, 8);
  c.optimizer.lr = 0.1;  // so large that the evaluation loss also rises
  c.evaluation.eval_interval = c.checkpoint.save_interval = {2, time_unit::batch};
  c.checkpoint.save_folder = files.folder / "saved";
  c.checkpoint.save_num_checkpoints_to_keep = 1;
  c.output.metrics_file = files.folder / "metrics.jsonl";
  run(c, make_examples(24), 2);
  double least_loss = 1e9;
  std::int64_t batch = 0;
  for (auto const& record : records(files.folder / "metrics.jsonl"))
    if (record.contains("metrics/eval/LanguageCrossEntropy") &&
        record.at("metrics/eval/LanguageCrossEntropy").get<double>() < least_loss) {
      least_loss = record.at("metrics/eval/LanguageCrossEntropy").get<double>();
      batch = record.at("time/batch").get<std::int64_t>();
    }
  auto const best = fs::read_symlink(files.folder / "saved" / "best").string();
  CHECK(best.ends_with("-ba" + std::to_string(batch)));
  CHECK(!content_of(files.folder / "saved" / best).empty());
  std::size_t folders = 0;
  for (auto const& entry : fs::directory_iterator(files.folder / "saved"))
    folders += entry.is_directory() && !entry.is_symlink() ? 1 : 0;
  CHECK(folders == (batch == 8 ? 1 : 2));
}

TEST_CASE("run data: packed examples give the same loss in every layout") {
  run_files const files;
  auto const examples = make_examples(40);
  auto c = divisible_config(files, 3);
  c.model.resid_pdrop = 0;
  c.data.train_loader = config(files, 3).data.train_loader;
  c.data.train_loader.shuffle = true;
  c.data.train_loader.finetuning->packing = mpt::packing_config{1.5, {}};
  c.model.attn.attn_uses_sequence_id = true;
  auto const alone = run(c, examples, 1);
  for (auto const& layout : {grid{.zero_stage = 3, .data = 3},
                             grid{.data = 2, .parallelism = {.tensor = 2, .pipeline = 2}},
                             grid{.zero_stage = 1, .parallelism = {.context = 2}}}) {
    auto const other = run(with_layout(c, layout), examples, layout.ranks());
    CHECK(other.loss == doctest::Approx(alone.loss).epsilon(1e-4));
    CHECK(other.tokens == alone.tokens);
    CHECK(other.trained_tokens == alone.trained_tokens);
  }
}

}  // namespace
}  // namespace run_data_test
