// A run as a row of a table: every column is present, in the unit of its heading.
#include <doctest/doctest.h>

#include <mpt/train/report/run_row.hpp>

namespace run_row_test {

mpt::train_config config() {
  mpt::train_config out;
  out.model.d_model = 768;
  out.model.n_heads = 12;
  out.model.n_layers = 12;
  out.model.vocab_size = 50368;
  out.model.max_seq_len = 2048;
  out.evaluation.eval_interval = {1000, mpt::time_unit::batch};
  out.data.eval_loaders.emplace_back();
  return out;
}

mpt::run_summary summary() {
  mpt::run_summary out;
  out.batches = out.batches_here = 4800;
  out.tokens_per_second = 6589902;
  out.mfu = 0.1;
  out.device_memory_bytes = 13.4 * 0x1p30;
  out.evaluation = mpt::evaluation_report{.label = "", .batch = 4800, .loss = 3, .accuracy = 0.53};
  return out;
}

TEST_CASE("run row: a whole run has all columns of published tables") {
  auto const row = mpt::row_of(config().model, config().data, config().evaluation, summary(), 547.9,
                               8, 1.5 * 0x1p30);
  CHECK(to_string(row) ==
        "| model    | batches | eval every | nodes | wall-clock s |  tokens/s |   MFU | GiB per "
        "device | checkpoint | convert+infer+eval | eval accuracy |\n"
        "|:---------|--------:|-----------:|------:|-------------:|----------:|------:|-----------"
        "----:|-----------:|:-------------------|--------------:|\n"
        "| MPT-125M |   4,800 |     1000ba |     8 |        547.9 | 6,589,902 | 0.100 |           "
        "13.4 |    1.5 GiB | –                  |        0.5300 |\n");
  auto const json = to_json(row);
  CHECK(json.at("model") == "MPT-125M");
  CHECK(json.at("batches") == 4800);
  CHECK(json.at("evaluated_every") == "1000ba");
  CHECK(json.at("nodes") == 8);
  CHECK(json.at("wall_clock_seconds") == 547.9);
  CHECK(json.at("tokens_per_second") == 6589902);
  CHECK(json.at("mfu") == 0.1);
  CHECK(json.at("gib_per_device") == 13.4);
  CHECK(json.at("checkpoint_bytes") == 1.5 * 0x1p30);
  CHECK(json.at("conversion_inference_evaluation_ok").is_null());
  CHECK(json.at("evaluation_accuracy") == 0.53);
}

TEST_CASE("run row: missing values are dashes, and a resumed run states its own batches") {
  auto run_config = config();
  run_config.data.eval_loaders.clear();
  auto run = summary();
  run.evaluation = std::nullopt;
  run.batches_here = 1800;
  auto const row = mpt::row_of(run_config.model, run_config.data, run_config.evaluation, run, 10, 1,
                               std::nullopt);
  auto const text = to_string(row);
  CHECK(text.find("| 4,800 (1,800 here) |") != std::string::npos);
  CHECK(text.find("|      never |") != std::string::npos);
  CHECK(text.ends_with("|          – | –                  |             – |\n"));
  CHECK(to_json(row).at("checkpoint_bytes").is_null());
  CHECK(to_json(row).at("evaluation_accuracy").is_null());
}

}  // namespace run_row_test
