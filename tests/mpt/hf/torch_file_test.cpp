// Files of torch.save: those that PyTorch and transformers wrote
// (tests/reference/make_torch_files.py), and malformed ones made by hand.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/hf/torch_file.hpp>
#include <parallel/support/files.hpp>
#include <support/golden/golden_tensor.hpp>
#include <support/torch_zip.hpp>

namespace torch_file_test {

using mpt::hf::torch_file;
using test::pickle_code;
using test::zip_member;

std::filesystem::path golden() { return test::golden_folder() / "torch"; }

void check_equals_safetensors(torch_file const& file) {
  parallel::checkpoint::safetensors_file const expected(golden() / "model.safetensors");
  std::size_t tensor_count = 0;
  for (auto const& tensor : expected.tensors()) {
    CAPTURE(tensor.name);
    auto const& entry = file.tensors().at(tensor.name);
    CHECK(entry.extents == tensor.extents);
    std::vector<float> values(static_cast<std::size_t>(tensor.size()));
    file.read(entry, 0, std::span(values));
    CHECK(values == test::golden_tensor<float>(expected, tensor.name));
    std::vector<double> two_values(2);
    file.read(entry, 5, std::span(two_values));
    CHECK(two_values == std::vector<double>{values[5], values[6]});
    ++tensor_count;
  }
  CHECK(tensor_count > 10);
}

TEST_CASE("torch file: pytorch_model.bin and a Composer checkpoint equal the safetensors file") {
  torch_file const bin(golden() / "bin/pytorch_model.bin");
  check_equals_safetensors(bin);
  CHECK_FALSE(bin.config().has_value());
  torch_file const composer(golden() / "composer.pt");
  check_equals_safetensors(composer);
  CHECK(composer.config()->at("attn_config").at("clip_qkv") == 2.0);
  CHECK(composer.config()->at("vocab_size") == 29);
  CHECK_FALSE(composer.tensors().contains("exp_avg"));
}

/// A handmade file of a pickle and of four floats as data/0.
struct handmade_file {
  test::temporary_folder folder;
  std::vector<zip_member> members;

  explicit handmade_file(std::string const& code)
      : members{{"m/data.pkl", code},
                {"m/byteorder", "little"},
                {"m/data/0", test::bytes_of(std::vector<float>{1, 2, 3, 4})}} {}

  [[nodiscard]] std::filesystem::path path() const {
    auto out = folder / "m.bin";
    test::write_zip(out, members);
    return out;
  }
  [[nodiscard]] std::string problem() const {
    return test::message_of([&] { torch_file const file(path()); });
  }
};

std::string dictionary(std::string const& entries) {
  return pickle_code().raw("}(").raw(entries).raw("u").stop();
}
/// A tensor named "w", as a key and its value.
std::string tensor(std::string_view type, std::string_view key, std::int64_t stored_elements,
                   std::vector<std::int64_t> const& extents, std::int64_t first = 0) {
  return pickle_code("").text("w").tensor(type, key, stored_elements, extents, first).stop();
}
std::string dictionary_of_one(std::string_view type, std::string_view key,
                              std::int64_t stored_elements,
                              std::vector<std::int64_t> const& extents, std::int64_t first = 0) {
  auto entry = tensor(type, key, stored_elements, extents, first);
  entry.pop_back();  // the stop instruction
  return dictionary(entry);
}

TEST_CASE("torch file: tensors may share a storage and begin anywhere in it") {
  handmade_file const handmade(dictionary_of_one("FloatStorage", "0", 4, {2}, 1));
  torch_file const file(handmade.path());
  std::vector<float> values(2);
  file.read(file.tensors().at("w"), 0, std::span(values));
  CHECK(values == std::vector<float>{2, 3});
  CHECK(test::contains(
      test::message_of([&] { file.read(file.tensors().at("w"), 1, std::span(values)); }),
      "a tensor has 2 elements; 2 from 1 on were asked for"));
  handmade_file const integers(dictionary_of_one("LongStorage", "0", 2, {2}));
  torch_file const integer_file(integers.path());
  CHECK(test::contains(test::message_of([&] {
                         integer_file.read(integer_file.tensors().at("w"), 0, std::span(values));
                       }),
                       "a tensor of LongStorage is not of real numbers"));
}

TEST_CASE("torch file: inconsistent descriptions of tensors are refused") {
  auto const problem = [](std::string const& code) { return handmade_file(code).problem(); };
  CHECK(problem(dictionary_of_one("FloatStorage", "0", 4, {2, 2})).empty());
  CHECK(test::contains(problem(dictionary_of_one("FloatStorage", "0", 4, {5})),
                       "tensor \"w\": reaches beyond its storage of 4 elements"));
  CHECK(
      test::contains(problem(dictionary_of_one("FloatStorage", "0", 4, {2}, 3)), "reaches beyond"));
  CHECK(test::contains(problem(dictionary_of_one("FloatStorage", "0", 4, {2}, -1)),
                       "reaches beyond"));
  CHECK(test::contains(problem(dictionary_of_one("FloatStorage", "0", 5, {2})),
                       "its storage has 5 elements, but bytes for 4"));
  CHECK(
      test::contains(problem(dictionary_of_one("DoubleStorage", "0", 4, {2})), "but bytes for 2"));
  CHECK(test::contains(problem(dictionary_of_one("FloatStorage", "1", 4, {2})),
                       "its bytes, data/1, are missing"));
  CHECK(test::contains(problem(dictionary_of_one("FloatStorage", "../0", 4, {2})), "are missing"));
  CHECK(
      test::contains(problem(dictionary_of_one("FloatStorage", "0", 4, {-2})), "negative extent"));
  CHECK(test::contains(problem(dictionary_of_one("FloatStorage", "0", 4, {1L << 40, 1L << 40})),
                       "more elements than 64 bits"));
  CHECK(test::contains(problem(dictionary("")), "holds no dictionary of tensors"));
  CHECK(
      test::contains(problem(pickle_code().raw("K\x01").stop()), "holds no dictionary of tensors"));
  auto twin_tensor = tensor("FloatStorage", "0", 4, {2});
  twin_tensor.pop_back();
  CHECK(test::contains(problem(dictionary(twin_tensor + twin_tensor)),
                       "two tensors are named \"w\""));
  // a transposed view: strides 1, 2
  auto const transposed = pickle_code()
                              .raw("}(")
                              .text("w")
                              .global("torch._utils", "_rebuild_tensor_v2")
                              .raw("((")
                              .text("storage")
                              .global("torch", "FloatStorage")
                              .text("0")
                              .text("cpu")
                              .raw("K\x04tQK")
                              .raw(std::string(1, '\0'))
                              .tuple({2, 2})
                              .tuple({1, 2})
                              .raw("\x89")
                              .raw("}tRu")
                              .stop();
  CHECK(test::contains(problem(transposed), "its elements are not in order"));
}

TEST_CASE("torch file: PyTorch's old form and adapters without a model are refused with advice") {
  CHECK(test::contains(test::message_of([&] { torch_file const f(golden() / "legacy.bin"); }),
                       "the form that torch.save had before PyTorch 1.6"));
  CHECK(test::contains(test::message_of([&] { torch_file const f(golden() / "adapters.pt"); }),
                       "holds LoRA adapters alone"));
}

TEST_CASE("torch file: compressed tensors, large pickles, big-endian and other files are refused") {
  auto const good = dictionary_of_one("FloatStorage", "0", 4, {4});
  handmade_file bomb(good);
  bomb.members[2].content.assign(std::size_t{1} << 20, '\0');
  bomb.members[2].compressed = true;
  torch_file const file(bomb.path());
  std::vector<float> values(4);
  CHECK(test::contains(
      test::message_of([&] { file.read(file.tensors().at("w"), 0, std::span(values)); }),
      "a tensor in it is compressed or encrypted; save it as torch.save does"));
  handmade_file large(std::string((std::size_t{1} << 26) + 1, 'N'));
  large.members[0].compressed = true;
  CHECK(test::contains(large.problem(), "a member has 67108865 bytes, but at most"));
  handmade_file big_endian(good);
  big_endian.members[1].content = "big";
  CHECK(test::contains(big_endian.problem(), "its numbers are big-endian"));
  handmade_file other_zip(good);
  other_zip.members[0].name = "document.xml";
  CHECK(test::contains(other_zip.problem(), "has no data.pkl"));
}

TEST_CASE("torch file: a configuration that contains itself or grows by sharing is refused") {
  auto const with_config = [](std::string const& content) {
    auto entry = tensor("FloatStorage", "0", 4, {4});
    entry.pop_back();
    pickle_code code;
    code.raw("}").text("state").raw("}(").text("model").raw("}(").raw(entry).raw("u");
    for (auto const* const key : {"integrations", "huggingface", "model", "config"})
      code.text(key).raw("}(");
    return code.text("content").raw("}(").text("x").raw(content).raw("uuuuu").raw("us").stop();
  };
  CHECK(handmade_file(with_config("}")).problem().empty());
  CHECK(test::contains(handmade_file(with_config("]q\x09h\x09"
                                                 "a"))
                           .problem(),
                       "the configuration in it is too large"));
  std::string shared = "]q\x01(NNNNNNNNNNe";
  for (char level = 1; level < 8; ++level) {
    shared += "0]q" + std::string(1, static_cast<char>(level + 1)) + "(";
    for (int i = 0; i < 10; ++i) shared += "h" + std::string(1, level);
    shared += "e";
  }
  CHECK(test::contains(handmade_file(with_config(shared)).problem(),
                       "the configuration in it is too large"));
}

}  // namespace torch_file_test
