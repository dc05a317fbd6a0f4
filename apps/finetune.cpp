// finetune: trains an MPT on prompts and responses, from one of LLM Foundry's finetuning YAMLs.
//
//   finetune mpt-7b_dolly_sft.yaml model.pretrained_model_name_or_path=FOLDER key.sub=value …
//
// The program is the same as pretrain, under the name that its users look for; the YAML names the
// data.
#include "support/train.hpp"

int main(int argc, char** argv) {
  return apps::train_program(
      argc, argv, "Finetune an MPT on prompts and responses, from a YAML in LLM Foundry's form");
}
