#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/hf/export.hpp>
#include <mpt/hf/import.hpp>
#include <parallel/support/files.hpp>

namespace hf_export_test {
namespace hf = mpt::hf;
namespace pc = parallel::checkpoint;
using parallel::index;

std::vector<hf::named_shape> const& model() {
  static std::vector<hf::named_shape> const tensors = {
      {"transformer.wte.weight", {1100, 1000}},  // more than one chunk
      {"transformer.blocks.0.norm_1.weight", {1000}},
      {"transformer.blocks.0.attn.Wqkv.weight", {300, 100}},
      {"transformer.norm_f.weight", {1000}}};
  return tensors;
}

float value_of(std::string const& name, index i) {
  return static_cast<float>(i % 9973) * 0.25F + static_cast<float>(name.size());
}

void source(std::string const& name, index begin, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = value_of(name, begin + static_cast<index>(i));
}

nlohmann::json config() { return {{"model_type", "mpt"}, {"d_model", 1000}}; }

template <class Round>
bool holds_model(std::filesystem::path const& folder, Round round) {
  hf::hf_import const read(folder);
  read.require_tensors(model());
  for (auto const& [name, extents] : model()) {
    std::vector<float> values(static_cast<std::size_t>(pc::checked_volume(extents, 1, name)));
    read.read(name, 0, std::span(values));
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != round(value_of(name, static_cast<index>(i)))) return false;
  }
  return true;
}

TEST_CASE("export: a model is written in fp32 or bf16 and read back by name") {
  test::temporary_folder const folder;
  auto const unchanged = [](float value) { return value; };
  auto const rounded = [](float value) { return static_cast<float>(parallel::bf16(value)); };
  hf::hf_export(folder / "deep/wide", model(), source,
                {.type = hf::precision::fp32, .config = config()});
  CHECK(holds_model(folder / "deep/wide", unchanged));
  hf::hf_export(folder / "narrow/", model(), source,
                {.config = config(), .generation_config = nlohmann::json{{"eos_token_id", 0}}});
  CHECK(holds_model(folder / "narrow", rounded));
  hf::hf_import const read(folder / "narrow");
  CHECK(read.config().at("torch_dtype") == "bfloat16");
  CHECK(read.config().at("d_model") == 1000);
  CHECK_FALSE(read.tokenizer().has_value());
  CHECK(pc::safetensors_file(folder / "narrow/model.safetensors").metadata().at("format") == "pt");
  CHECK(test::contains(test::read_all(folder / "narrow/generation_config.json"), "eos_token_id"));
}

TEST_CASE("export: a large model is divided into shards with an index") {
  test::temporary_folder const folder;
  hf::hf_export(folder / "m", model(), source,
                {.type = hf::precision::fp32, .config = config(), .max_shard_bytes = 124'000});
  CHECK(holds_model(folder / "m", [](float value) { return value; }));
  CHECK(std::filesystem::file_size(folder / "m/model-00001-of-00003.safetensors") > 4'400'000);
  auto const index_json =
      nlohmann::json::parse(test::read_all(folder / "m/model.safetensors.index.json"));
  CHECK(index_json["metadata"]["total_size"] == 4 * (1'100'000 + 1000 + 30'000 + 1000));
  CHECK(index_json["weight_map"]["transformer.blocks.0.attn.Wqkv.weight"] ==
        "model-00002-of-00003.safetensors");
  CHECK(index_json["weight_map"]["transformer.norm_f.weight"] ==
        "model-00003-of-00003.safetensors");
  CHECK_FALSE(std::filesystem::exists(folder / "m/model.safetensors"));
}

TEST_CASE("export: tokenizer files are copied, and extra files replace them") {
  test::temporary_folder const folder;
  std::filesystem::create_directory(folder / "t");
  test::write_all(folder / "t/tokenizer.json", "{}");
  test::write_all(folder / "t/merges.txt", "a b");
  test::write_all(folder / "t/secret.txt", "not copied");
  auto const options = [&](std::string const& tokenizer) {
    return hf::export_options{.config = config(), .tokenizer = folder / tokenizer};
  };
  auto with_extra = options("t");
  with_extra.extra_files = {{"merges.txt", "c d"}, {"README.md", "# m"}};
  hf::hf_export(folder / "m", model(), source, with_extra);
  CHECK(test::read_all(folder / "m/tokenizer.json") == "{}");
  CHECK(test::read_all(folder / "m/merges.txt") == "c d");
  CHECK(test::read_all(folder / "m/README.md") == "# m");
  CHECK_FALSE(std::filesystem::exists(folder / "m/secret.txt"));
  CHECK(hf::hf_import(folder / "m").tokenizer() == folder / "m/tokenizer.json");
  hf::hf_export(folder / "n", model(), source, options("t/tokenizer.json"));
  CHECK(test::read_all(folder / "n/tokenizer.json") == "{}");
  auto const problem = [&](hf::export_options const& options) {
    return test::message_of([&] { hf::hf_export(folder / "o", model(), source, options); });
  };
  CHECK(test::contains(problem(options("none")), "/none: cannot open"));
  CHECK(test::contains(problem(options("n/model.safetensors/x")), "cannot open"));
  std::filesystem::remove(folder / "t/tokenizer.json");
  CHECK(test::contains(problem(options("t")), "this folder has no tokenizer.json"));
  with_extra = options("n");
  with_extra.extra_files = {{"../x", ""}};
  CHECK(test::contains(problem(with_extra), "\"../x\" is not a plain file name"));
  CHECK_FALSE(std::filesystem::exists(folder / "o"));
}

TEST_CASE("export: an existing folder is replaced only when it is an export and this is allowed") {
  test::temporary_folder const folder;
  auto const write = [&](pc::if_exists existing) {
    return test::message_of([&] {
      hf::hf_export(folder / "m", model(), source, {.config = config(), .existing = existing});
    });
  };
  std::filesystem::create_directory(folder / "m");
  CHECK(write(pc::if_exists::refuse).empty());  // an empty folder counts as absent
  CHECK(test::contains(write(pc::if_exists::refuse), "/m: exists already"));
  CHECK(write(pc::if_exists::replace).empty());
  std::filesystem::create_directory(folder / "m/precious");
  CHECK(test::contains(write(pc::if_exists::replace), "is not a folder that an export wrote"));
  CHECK(std::filesystem::exists(folder / "m/precious"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("export: a failure at any point leaves the earlier export and nothing else") {
  test::temporary_folder const folder;
  std::vector<hf::named_shape> const small = {{"a", {3}}, {"b", {2, 2}}};
  auto const run = [&](hf::precision type, int fail_at) {
    int action_count = 0;
    return test::message_of([&] {
      hf::hf_export(folder / "m", small, source,
                    {.type = type,
                     .config = config(),
                     .max_shard_bytes = 12,
                     .existing = pc::if_exists::replace,
                     .on_action = [&](std::string_view) {
                       if (action_count++ == fail_at) parallel::fail("stopped");
                     }});
    });
  };
  REQUIRE(run(hf::precision::fp32, -1).empty());
  int k = 0;
  while (!run(hf::precision::bf16, k).empty()) {
    hf::hf_import const read(folder / "m");
    read.require_tensors(small);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
    ++k;
  }
  CHECK(k > 10);
  CHECK(hf::hf_import(folder / "m").config().at("torch_dtype") == "bfloat16");
}

TEST_CASE("export: invalid options and tensors are refused") {
  test::temporary_folder const folder;
  auto const problem = [&](std::vector<hf::named_shape> const& tensors,
                           hf::export_options const& options) {
    return test::message_of([&] { hf::hf_export(folder / "m", tensors, source, options); });
  };
  CHECK(test::contains(problem({}, {.config = config()}), "no tensors to export"));
  CHECK(test::contains(problem({{"a", {1}}}, {.config = 3}), "config must be a JSON object"));
  CHECK(test::contains(problem({{"a", {1}}, {"a", {1}}}, {.config = config()}),
                       "two tensors have the same name"));
  CHECK(
      test::contains(problem({{"a", {1}}, {"a", {1}}}, {.config = config(), .max_shard_bytes = 1}),
                     "two tensors have the same name"));
  CHECK(test::contains(problem({{"a", {-1}}}, {.config = config()}), "negative extent"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace hf_export_test
