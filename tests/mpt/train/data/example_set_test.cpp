// The examples of a run: loaders find them in folders and files, and refuse bad ones.
#include <fstream>

#include <doctest/doctest.h>

#include <mpt/tokenizer/small_tokenizer.hpp>
#include <mpt/train/data/example_set.hpp>
#include <parallel/support/files.hpp>

namespace example_set_test {

struct example_files {
  example_files() {
    tokenizer_test::small_tokenizer().save(folder / "tokenizer");
    std::filesystem::create_directories(folder / "set");
    write("set/train.jsonl",
          "{\"prompt\": \"The fox\", \"response\": \" the dog\"}\n"
          "{\"prompt\": \"The fox\", \"response\": \"\"}\n");
    write("set/test.jsonl", "{\"prompt\": \"dog\", \"response\": \" fox\"}\n");
    write("columns.jsonl", "{\"q\": \"The fox\", \"a\": \" the dog\"}\n");
  }
  void write(std::string const& name, std::string const& text) const {
    std::ofstream(folder / name) << text;
  }
  [[nodiscard]] mpt::train_config config(std::string const& name) const {
    mpt::train_config c;
    c.data.tokenizer.name = (folder / "tokenizer").string();
    c.data.train_loader.finetuning = mpt::finetuning_config{.name = name, .set = name};
    c.data.train_loader.max_seq_len = 16;
    return c;
  }
  [[nodiscard]] std::string path(char const* name) const { return (folder / name).string(); }

  test::temporary_folder folder;
};

TEST_CASE("example set: splits of a folder are the examples of training and evaluation") {
  example_files const files;
  auto c = files.config(files.path("set"));
  c.data.train_loader.finetuning->split = "train";
  c.data.eval_loaders = {c.data.train_loader, mpt::loader_config{}};
  c.data.eval_loaders[0].finetuning->split = "test";
  auto const examples = mpt::read_run_examples(c.model, c.data);
  REQUIRE(examples.train);
  CHECK(examples.train->examples.size() == 1);
  CHECK(examples.train->examples[0].ids == std::vector<std::int32_t>{272, 284, 88, 259, 289, 0});
  CHECK(examples.train->lengths() == std::vector<std::uint32_t>{6});
  REQUIRE(examples.evaluation.size() == 2);
  CHECK(examples.evaluation[0]->examples.size() == 1);
  CHECK(examples.evaluation[1] == nullptr);  // text
  CHECK(describe(examples, c.data) ==
        std::vector<std::string>{"train_loader: 1 examples of " + files.path("set/train.jsonl") +
                                     ", 1 rows left out (nothing in them is trained on)",
                                 "eval_loader: 1 examples of " + files.path("set/test.jsonl")});
}

TEST_CASE("example set: columns of other names are mapped") {
  example_files const files;
  auto c = files.config(files.path("columns.jsonl"));
  c.data.train_loader.finetuning->columns = mpt::prompt_columns{"q", "a"};
  CHECK(mpt::read_run_examples(c.model, c.data).train->examples.size() == 1);
}

TEST_CASE("example set: a Parquet file is read by the caller's reader") {
  example_files const files;
  files.write("rows.parquet", "");
  auto const c = files.config(files.path("rows.parquet"));
  auto const one_row = [](std::filesystem::path const&, mpt::finetune::row_consumer const& use) {
    use({{"prompt", "The fox"}, {"response", " the dog"}}, "row 1");
  };
  CHECK(mpt::read_run_examples(c.model, c.data, {.parquet = one_row}).train->examples.size() == 1);
}

TEST_CASE("example set: a run on text has no examples") {
  auto const examples = mpt::read_run_examples({}, {});
  CHECK(examples.train == nullptr);
  CHECK(examples.evaluation.empty());
}

TEST_CASE("example set: missing files, columns and token ids are refused with one clear message") {
  example_files const files;
  auto const problem = [](mpt::train_config const& c) {
    return test::message_of([&] { static_cast<void>(mpt::read_run_examples(c.model, c.data)); });
  };
  CHECK(problem(files.config("mosaicml/dolly_hhrlhf")) ==
        "train_loader.dataset.hf_name: 'mosaicml/dolly_hhrlhf' is no folder or file on this "
        "machine; mosaicml's files are no longer on the hub, and nothing is downloaded; get a copy "
        "and give its path by train_loader.dataset.hf_name=PATH, or for "
        "every use of the name by mirrors.mosaicml/dolly_hhrlhf=PATH");
  auto c = files.config(files.path("columns.jsonl"));
  CHECK(problem(c).find("\"q\"") !=
        std::string::npos);  // the message names the columns of the file
  c.data.tokenizer.name = "EleutherAI/gpt-neox-20b";
  CHECK(problem(c).starts_with("tokenizer.name: 'EleutherAI/gpt-neox-20b' is no folder on this"));
  std::filesystem::create_directory(files.path("mds"));
  std::ofstream(files.path("mds/index.json")) << "{}";
  CHECK(problem(files.config(files.path("mds")))
            .ends_with(
                "is an MDS set (it has an index.json); name it by train_loader.dataset.local"));
  c = files.config(files.path("columns.jsonl"));
  c.data.train_loader.finetuning->columns = mpt::prompt_columns{"q", "a"};
  c.model.vocab_size = 100;
  CHECK(problem(c) ==
        "the tokenizer gives id 289, but model.vocab_size is 100; use the tokenizer that the model "
        "was trained with, or, of a model in a folder (hf_causal_lm), set "
        "model.allow_embedding_resizing=true");
}

}  // namespace example_set_test
