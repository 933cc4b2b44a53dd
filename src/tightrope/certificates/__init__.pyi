from .certificate import Certificate as Certificate
from .evidence import Evidence as Evidence
from .folder import (
    as_text as as_text,
    load_certificate as load_certificate,
    to_document as to_document,
    write as write,
)
from .ledger import Ledger as Ledger
from .options import Options as Options
from .properties import Property as Property
from .settings import Settings as Settings, settle as settle
from .statements.base import Family as Family, Statement as Statement
