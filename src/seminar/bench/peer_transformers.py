"""A job -> runs of it by transformers' own `generate`, our adapter loaded through PEFT, in the same dtype.

python -m seminar.bench.peer_transformers, with a job on standard input (see pipe.py).
"""

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, GenerationConfig

from seminar.bench.pipe import Clock, Pipe


def main() -> None:
    """Serve the bench's parent."""
    pipe = Pipe()
    job, s = pipe.job, pipe.job.scenario
    base = AutoModelForCausalLM.from_pretrained(job.model, dtype=getattr(torch, job.dtype))
    model = PeftModel.from_pretrained(base, job.adapter).eval().to(job.device)
    ids = torch.tensor([prompt.ids for prompt in job.prompts], device=job.device)
    settings = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_new_tokens=s.new_tokens,
        max_new_tokens=s.new_tokens,
        eos_token_id=base.generation_config.eos_token_id,
        pad_token_id=0,
    )

    def run(clock: Clock) -> float:
        with clock.phase("sample", tokens=s.written), torch.no_grad():
            out = model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings
            )
        assert out.shape[1] == s.prompt_tokens + s.new_tokens
        return clock.seconds["sample"]

    pipe.serve(run)


if __name__ == "__main__":
    main()
