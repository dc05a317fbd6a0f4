// finetune: trains a model on prompts and responses, from one of LLM Foundry's finetuning YAMLs.
//
//   finetune mpt-7b_dolly_sft.yaml model.pretrained_model_name_or_path=FOLDER key.sub=value …
//
// The program is the same as pretrain, under the name that its users look for; the YAML names the
// data.
#include <trainer/train.hpp>

int main(int argc, char** argv) {
  return apps::train_program(
      argc, argv, "Finetune a model on prompts and responses, from a YAML in LLM Foundry's form",
      {"finetune apps/configs/finetune.yaml variables.model=my-model variables.train=train.jsonl "
       "variables.test=test.jsonl",
       "finetune run.yaml 'model.peft_config={r: 16, lora_alpha: 32, target_modules: all-linear}'",
       "finetune run.yaml dry_run=true device_memory=80GB ranks=8"});
}
