// train_tokenizer: trains a small byte-level BPE on text and writes it as a Hugging Face
// tokenizer.json.
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/console/format.hpp>
#include <mpt/console/say.hpp>
#include <mpt/data/document_reader.hpp>
#include <mpt/data/json.hpp>
#include <mpt/data/records.hpp>
#include <mpt/tokenizer/train_tokenizer.hpp>

#include <cli/app.hpp>
#include <cli/results_file.hpp>
#include <inputs/parquet.hpp>
#include <launch/launch.hpp>
#include <launch/launcher.hpp>

namespace {

struct arguments {
  std::filesystem::path out;
  std::vector<std::filesystem::path> files;
  std::int32_t vocab_size = 4096;
  std::uint64_t max_bytes = std::uint64_t{64} << 20;
  apps::results_file json;
};

/// Throws if the tokenizer of `size` tokens in `folder` was made from other files or with other
/// options. Without a record of them, it throws only if the tokenizer is larger than requested.
void require_made_so(std::filesystem::path const& folder, std::int64_t size,
                     std::filesystem::path const& record, nlohmann::json const& parameters) {
  if (!std::filesystem::exists(record)) {
    auto const& wanted = parameters.at("vocab_size");
    parallel::require(size <= wanted.get<std::int64_t>(), folder.string(), " holds a tokenizer of ",
                      size, " tokens, not ", wanted.dump(), "; remove it or choose another --out");
    mpt::console::say("note: {}: what its tokenizer was made of is not known (there is no {})\n",
                      folder.string(), record.filename().string());
    return;
  }
  auto const recorded =
      mpt::data::parse_json(parallel::read_text_file(record, 1U << 26), record.string());
  auto const differences = mpt::data::parameter_differences(recorded, parameters, record);
  parallel::require(differences.empty(), folder.string(),
                    ": holds a tokenizer that was made otherwise:", differences,
                    "\nRepeat that, or choose another --out, or remove the folder.");
}

void train(arguments const& args) {
  auto const begin = std::chrono::steady_clock::now();
  auto const record = args.out / "train_tokenizer.json";
  nlohmann::json const parameters{{"vocab_size", args.vocab_size},
                                  {"max_bytes", args.max_bytes},
                                  {"inputs", mpt::data::file_identities(args.files)}};
  if (std::filesystem::exists(args.out / "tokenizer.json")) {
    auto const size = mpt::tokenizer::load(args.out).size();
    require_made_so(args.out, size, record, parameters);
    args.json.write({{"folder", args.out.native()}, {"already_there", true}, {"tokens", size}});
    if (args.json.is_printed_alone()) return;
    fmt::print("already there: {}, {} tokens\n", args.out.string(), size);
    return;
  }
  std::vector<std::string> texts;
  std::uint64_t bytes = 0;
  std::string row;
  for (auto const& file : args.files) {
    mpt::data::document_reader reader(file, {.open_parquet = apps::parquet_texts()});
    while (bytes < args.max_bytes && reader.next(row)) {
      texts.push_back(reader.format() == mpt::data::text_format::json_lines
                          ? mpt::data::text_of_row(row, reader.name(), reader.line())
                          : row);
      bytes += texts.back().size();
    }
  }
  auto const tokenizer = mpt::train_tokenizer(texts, {.vocab_size = args.vocab_size});
  std::filesystem::create_directories(args.out);
  parallel::replace_text_file(record, mpt::data::python_json(parameters) + "\n");
  mpt::write_tokenizer_files(tokenizer.files(), args.out);
  double const seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  args.json.write({{"folder", args.out.native()},
                   {"already_there", false},
                   {"tokens", tokenizer.size()},
                   {"bytes", bytes},
                   {"seconds", seconds}});
  if (args.json.is_printed_alone()) return;
  fmt::print("{}: {} tokens from {} of text in {:.1f} s\n", args.out.string(), tokenizer.size(),
             mpt::console::bytes(static_cast<double>(bytes)), seconds);
  if (auto const size = static_cast<std::int64_t>(tokenizer.size()); size < args.vocab_size)
    fmt::print(
        "note: not {} tokens, since no pair of the text's tokens occurs twice any more; give "
        "more text\n",
        args.vocab_size);
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{"Train a byte-level BPE tokenizer on text"};
  apps::add_examples(app, {"train_tokenizer --vocab_size 32000 --out tokenizer book.txt"});
  app.add_option("--out", args.out, "folder for tokenizer.json")->required();
  app.add_option("--vocab_size", args.vocab_size, "tokens")
      ->capture_default_str()
      ->check(apps::whole_number(257, 1U << 21U));
  app.add_option("--max_bytes", args.max_bytes, "bytes of text to learn from")
      ->capture_default_str()
      ->check(apps::whole_number(1));
  args.json.add_to(app, "the figures");
  app.add_option("files", args.files, "text files")->required()->check(CLI::ExistingFile);
  return apps::run(app, argc, argv, apps::is_primary_here(), [&] {
    apps::require_one_process();
    args.json.check(args.files);
    train(args);
  });
}
