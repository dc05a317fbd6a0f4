// The examples of a run: where its loaders find them, and what is refused.
#include <fstream>

#include <doctest/doctest.h>

#include <mpt/tokenizer/small_tokenizer.hpp>
#include <mpt/train/example_set.hpp>
#include <parallel/support/files.hpp>

namespace example_set_test {

struct place {
  place() {
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
    c.tokenizer.name = (folder / "tokenizer").string();
    c.train_loader.finetuning = mpt::finetuning_config{.name = name, .set = name};
    c.train_loader.max_seq_len = 16;
    return c;
  }
  [[nodiscard]] std::string path(char const* name) const { return (folder / name).string(); }

  test::temporary_folder folder;
};

TEST_CASE("splits of a folder are the examples of training and evaluation") {
  place const here;
  auto c = here.config(here.path("set"));
  c.train_loader.finetuning->split = "train";
  c.eval_loaders = {c.train_loader, mpt::loader_config{}};
  c.eval_loaders[0].finetuning->split = "test";
  auto const examples = mpt::read_run_examples(c);
  REQUIRE(examples.train);
  CHECK(examples.train->examples.size() == 1);
  CHECK(examples.train->examples[0].ids == std::vector<std::int32_t>{272, 284, 88, 259, 289, 0});
  CHECK(examples.train->lengths() == std::vector<std::uint32_t>{6});
  REQUIRE(examples.evaluation.size() == 2);
  CHECK(examples.evaluation[0]->examples.size() == 1);
  CHECK(examples.evaluation[1] == nullptr);  // text
  CHECK(describe(examples, c) ==
        std::vector<std::string>{"train_loader: 1 examples of " + here.path("set/train.jsonl") +
                                     ", 1 rows left out (nothing in them is trained on)",
                                 "eval_loader: 1 examples of " + here.path("set/test.jsonl")});
}

TEST_CASE("columns of other names are mapped") {
  place const here;
  auto c = here.config(here.path("columns.jsonl"));
  c.train_loader.finetuning->columns = mpt::prompt_columns{"q", "a"};
  CHECK(mpt::read_run_examples(c).train->examples.size() == 1);
}

TEST_CASE("a Parquet file is read by the reader that is given") {
  place const here;
  here.write("rows.parquet", "");
  auto const c = here.config(here.path("rows.parquet"));
  auto const one_row = [](std::filesystem::path const&, mpt::finetune::row_consumer const& use) {
    use({{"prompt", "The fox"}, {"response", " the dog"}}, "row 1");
  };
  CHECK(mpt::read_run_examples(c, {.parquet = one_row, .templates = {}}).train->examples.size() ==
        1);
}

TEST_CASE("a run of text has no examples") {
  auto const examples = mpt::read_run_examples({});
  CHECK(examples.train == nullptr);
  CHECK(examples.evaluation.empty());
}

TEST_CASE("what is not there is one clear message") {
  place const here;
  auto const problem = [](mpt::train_config const& c) {
    return test::message_of([&] { static_cast<void>(mpt::read_run_examples(c)); });
  };
  CHECK(problem(here.config("mosaicml/dolly_hhrlhf")) ==
        "train_loader.dataset.hf_name: 'mosaicml/dolly_hhrlhf' is no folder or file on this "
        "machine; what mosaicml published on the hub is gone from there, and nothing is "
        "downloaded; get a copy and give its path by train_loader.dataset.hf_name=PATH, or for "
        "every use of the name by mirrors.mosaicml/dolly_hhrlhf=PATH");
  auto c = here.config(here.path("columns.jsonl"));
  CHECK(problem(c).find("\"q\"") != std::string::npos);  // what there is
  c.tokenizer.name = "EleutherAI/gpt-neox-20b";
  CHECK(problem(c).starts_with("tokenizer.name: 'EleutherAI/gpt-neox-20b' is no folder on this"));
  std::filesystem::create_directory(here.path("mds"));
  std::ofstream(here.path("mds/index.json")) << "{}";
  CHECK(problem(here.config(here.path("mds")))
            .ends_with(
                "is an MDS set (it has an index.json); name it by train_loader.dataset.local"));
  c = here.config(here.path("columns.jsonl"));
  c.train_loader.finetuning->columns = mpt::prompt_columns{"q", "a"};
  c.model.vocab_size = 100;
  CHECK(problem(c) ==
        "the tokenizer gives id 289, but model.vocab_size is 100; use the tokenizer that the model "
        "was trained with");
}

}  // namespace example_set_test
