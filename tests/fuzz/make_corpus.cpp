// Writes those seeds whose bytes hold lengths, checksums or hashes: `fuzz_corpus FOLDER`, where
// FOLDER is tests/fuzz/corpus. The others are edited as they are. Seeds are small,
// each of a different form; the fuzzer finds others.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/sizes.hpp>
#include <mpt/data/json.hpp>
#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/prepare_journal.hpp>
#include <parallel/checkpoint/format/manifest.hpp>
#include <parallel/checkpoint/format/safetensors_header.hpp>
#include <parallel/checkpoint/local/local_pointer.hpp>
#include <parallel/ops/cuda/tuning.hpp>

#include "../support/torch_zip.hpp"

namespace {

namespace fs = std::filesystem;
namespace pc = parallel::checkpoint;
using nlohmann::json;

class corpus {
 public:
  corpus(fs::path folder, std::string target) : folder_(std::move(folder) / target) {
    fs::create_directories(folder_);
  }
  void add(std::string const& name, std::string_view content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

 private:
  fs::path folder_;
};

std::string content_of(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_safetensors(fs::path const& root) {
  corpus const out(root, "safetensors");
  auto const file = [](std::string header, std::string_view data) {
    return pc::pack_safetensors_header(std::move(header), 0, "corpus") + std::string(data);
  };
  out.add("empty", file("{}", ""));
  out.add(
      "two",
      file(
          R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}})",
          "12345678ab"));
  out.add(
      "metadata",
      file(
          R"({"__metadata__":{"format":"pt"},"h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"n":{"dtype":"F64","shape":[0,5],"data_offsets":[2,2]}})",
          "ab"));
  out.add(
      "types",
      file(
          R"({"q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},"i":{"dtype":"I64","shape":[1],"data_offsets":[2,10]}})",
          "ab12345678"));
}

void write_manifest(fs::path const& root) {
  corpus const out(root, "manifest");
  pc::manifest value;
  value.state = {{"batches", 3},
                 {"model", mpt::to_hf_json(mpt::named_size("125m"), "bfloat16")},
                 {"tokenizer", "t"},
                 {"order", {{"seed", 17}}}};
  out.add("no_files", pc::format_manifest(value, "corpus"));
  value.state["tokenizer"] = 7;
  out.add("found_tokenizer_number", pc::format_manifest(value, "corpus"));
  value.state = json::object();
  value.slices.files = {{"rank-0.safetensors", 24}};
  value.slices.tensors = {
      {"wte",
       {pc::element_type::f32,
        {2, 3},
        {{0, 2, "rank-0.safetensors", 0, 8, 1}, {2, 6, "rank-0.safetensors", 8, 16, 2}}}},
      {"step", {pc::element_type::i64, {0}, {}}}};
  out.add("slices", pc::format_manifest(value, "corpus"));
  value.slices.tensors["wte"].slices = {{0, 5, "rank-0.safetensors", 0, 16, 1, 2, 3},
                                        {2, 6, "rank-0.safetensors", 16, 8, 2, 1, 3}};
  out.add("columns", pc::format_manifest(value, "corpus"));
  out.add("local_pointer", pc::format_local_pointer({{1, 30}, 2, 0xabc}));
}

void write_mds(fs::path const& root) {
  using namespace mpt::data;
  auto const folder = fs::temp_directory_path() / "parallellm-fuzz-corpus";
  corpus const indexes(root, "mds_index");
  corpus const shards(root, "mds_shard");
  corpus const journals(root, "journal");
  for (bool const compressed : {false, true}) {
    fs::remove_all(folder);
    mds_writer writer(folder, {.columns = {{"a", "ndarray:uint8"},
                                           {"b", "int64"},
                                           {"c", "str"},
                                           {"d", "ndarray"},
                                           {"e", "json"},
                                           {"f", "ndarray:float16:2"}},
                               .compression = compressed ? "zstd" : "",
                               .hashes = {"sha1", "xxh64"}});
    std::string eight(8, '\1');
    for (int i = 0; i < 3; ++i) {
      std::vector<std::string> values{std::string("\4\3abc", 5),      eight,          "text",
                                      std::string("\x08\x04\2xy", 5), "{\"k\": [1]}", "abcd"};
      std::vector<std::string_view> const views(values.begin(), values.end());
      static_cast<void>(writer.write(views));
    }
    writer.finish();
    auto const kind = std::string(compressed ? "zstd" : "raw");
    auto const index = content_of(folder / "index.json");
    indexes.add(kind, index);
    auto const parsed = parse_mds_index(index, "index.json");
    auto const& file = compressed ? *parsed[0].zip : parsed[0].raw;
    std::string head{static_cast<char>(parsed[0].samples), static_cast<char>(compressed)};
    detail::store(head, static_cast<std::uint32_t>(parsed[0].raw.bytes));
    shards.add(kind, head + content_of(folder / file.basename));
    json const line{{"shard", parsed[0].to_json()},
                    {"file", 0},
                    {"document", 3},
                    {"offset", 1},
                    {"before", {{"documents", 2}, {"bytes", 100}, {"tokens", 30}}}};
    journals.add(kind, "{\"tokenizer\": \"t\"}\n" + python_json(line) + "\n");
  }
  journals.add("begun", "{\"tokenizer\": \"t\"}\n");
  fs::remove_all(folder);
}

void write_kernel_tuning(fs::path const& root) {
  corpus const out(root, "kernel_tuning");
  parallel::cuda::kernel_tuning tables{
      parallel::cuda::matmul_tuning("a library on a device"),
      parallel::cuda::attention_tuning("another library on a device")};
  out.add("empty", to_text(tables));
  auto& table = tables.products;
  table.set({.m = 7, .n = 5, .k = 3, .transpose_b = true}, {.words = {1, ~0ULL}});
  out.add("one", to_text(tables));
  tables.attention.set({.batch = 2, .sequence = 8, .heads = 4, .key_heads = 2, .head_dim = 64}, 2);
  table.set({.m = 2304,
             .n = 768,
             .k = 32768,
             .transpose_a = true,
             .accumulate = true,
             .input = parallel::dtype::bf16,
             .alignment_c = 4},
            {.words = {2}, .guess = 15});
  out.add("two", to_text(tables));
}

void write_torch(fs::path const& root) {
  corpus const pickles(root, "pickle");
  corpus const files(root, "torch_file");  // makes the folder
  auto const tensor = [](std::string_view type, std::int64_t first) {
    auto out = test::pickle_code("").text("w").tensor(type, "0", 4, {2, 1}, first).stop();
    out.pop_back();  // the stop
    return out;
  };
  auto const plain = test::pickle_code().raw("}(").raw(tensor("FloatStorage", 2)).raw("u").stop();
  auto const named = test::pickle_code()
                         .global("collections", "OrderedDict")
                         .raw(")Rq\x01(")
                         .raw(tensor("BFloat16Storage", 0))
                         .raw("u}")
                         .text("_metadata")
                         .raw("}sb")
                         .stop();
  auto const composer = test::pickle_code()
                            .raw("}")
                            .text("state")
                            .raw("}(")
                            .text("model")
                            .raw("}(")
                            .raw(tensor("FloatStorage", 0))
                            .raw("u")
                            .text("integrations")
                            .raw("}")
                            .text("huggingface")
                            .raw("}")
                            .text("model")
                            .raw("}")
                            .text("config")
                            .raw("}")
                            .text("content")
                            .raw("}")
                            .text("model_type")
                            .text("mpt")
                            .raw("sssssus")
                            .stop();
  auto const values = test::pickle_code("\x80\x04")
                          .raw(
                              "](K\x01M\x02\x03J1234G12345678\x8a\x02\xff\xffN\x88\x89"
                              "C\x02xy\x8f\x94)\x85\x86\x87h")
                          .raw(std::string(1, '\0'))
                          .raw("e")
                          .stop();
  pickles.add("plain", plain);
  pickles.add("named", named);
  pickles.add("composer", composer);
  pickles.add("values", values);
  for (auto const& [name, code] :
       {std::pair{"plain", plain}, {"named", named}, {"composer", composer}}) {
    auto const path = root / "torch_file" / name;
    test::write_zip(
        path, {{"m/data.pkl", code}, {"m/byteorder", "little"}, {"m/data/0", "1234567812345678"}});
  }
  test::write_zip(root / "torch_file" / "compressed",
                  {{"m/data.pkl", plain, true}, {"m/data/0", "1234567812345678", true}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  fs::path const root = argv[1];
  write_safetensors(root);
  write_manifest(root);
  write_mds(root);
  write_kernel_tuning(root);
  write_torch(root);
}
