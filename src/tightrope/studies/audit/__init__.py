"""How often certificates fail, measured against the truth; results/audit.

Names are loaded on first use: what is asked should be refused without the import of torch.
"""
