// train_tokenizer: a small byte-level BPE from text, as a Hugging Face tokenizer.json.
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/console/format.hpp>
#include <mpt/data/document_reader.hpp>
#include <mpt/tokenizer/train_tokenizer.hpp>

#include "support/app.hpp"
#include "support/launch.hpp"
#include "support/launcher.hpp"

namespace {

struct arguments {
  std::filesystem::path out;
  std::vector<std::filesystem::path> files;
  std::int32_t vocab_size = 4096;
  std::uint64_t max_bytes = std::uint64_t{64} << 20;
};

void train(arguments const& args) {
  auto const begin = std::chrono::steady_clock::now();
  if (std::filesystem::exists(args.out / "tokenizer.json")) {
    auto const old = mpt::tokenizer::load(args.out);
    parallel::require(old.size() <= args.vocab_size, args.out.string(), " holds a tokenizer of ",
                      old.size(), " tokens, not ", args.vocab_size,
                      "; remove it or choose another --out");
    fmt::print("already there: {}, {} tokens\n", args.out.string(), old.size());
    return;
  }
  std::vector<std::string> texts;
  std::uint64_t bytes = 0;
  std::string row;
  for (auto const& file : args.files) {
    mpt::data::document_reader reader(file);
    while (bytes < args.max_bytes && reader.next(row)) {
      texts.push_back(reader.format() == mpt::data::text_format::json_lines
                          ? mpt::data::text_of_row(row, reader.name(), reader.line())
                          : row);
      bytes += texts.back().size();
    }
  }
  auto const tokenizer = mpt::train_tokenizer(texts, {.vocab_size = args.vocab_size});
  std::filesystem::create_directories(args.out);
  mpt::write_tokenizer_files(tokenizer.files(), args.out);
  fmt::print("{}: {} tokens from {} of text in {:.1f} s\n", args.out.string(), tokenizer.size(),
             mpt::console::bytes(static_cast<double>(bytes)),
             std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{"Train a byte-level BPE tokenizer on text"};
  app.add_option("--out", args.out, "folder for tokenizer.json")->required();
  app.add_option("--vocab_size", args.vocab_size, "tokens")
      ->capture_default_str()
      ->check(apps::whole_number(257, 1U << 21U));
  app.add_option("--max_bytes", args.max_bytes, "of text to learn from")
      ->capture_default_str()
      ->check(apps::whole_number(1));
  app.add_option("files", args.files, "text files")->required()->check(CLI::ExistingFile);
  return apps::run(
      app, argc, argv,
      [&] {
        apps::require_one_process();
        train(args);
      },
      apps::is_primary_here());
}
